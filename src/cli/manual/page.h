#pragma once

#include <filesystem>
#include <string>

namespace CLI {
class App;
}

namespace barge {

/// A manual page in man(7)'s language: the hand-written text of `file`, in which lines that begin
/// with @ stand for what the program knows of itself:
///   @synopsis       how `command` is called
///   @options        its arguments and flags
///   @commands       the commands that it has
///   @include FILE   another such text, beside this one
/// and @version@ anywhere for the version. Throws IoError, and FormatError for another @.
std::string manual_page(const CLI::App& command, const std::filesystem::path& file);

}  // namespace barge
