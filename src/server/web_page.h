#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/api.h"

namespace barge {

/// A file of src/server/page, which the build puts into the program (cmake/embed.cmake).
struct PageFile {
  std::string_view name;   // without a directory
  std::string_view bytes;  // for ever
  std::string_view etag;   // of these bytes, in its quotes
};

/// All of them, in no order that means anything.
std::span<const PageFile> page_files();

/// The web page's file of that name, as it goes over HTTP: with headers that let it load and call
/// nothing but this server, and 304 where `if_none_match`, the header's value, has the client's
/// copy up to date. Throws RequestError (404) for another name.
ApiReply web_page(std::string_view name, std::string_view if_none_match);

}  // namespace barge
