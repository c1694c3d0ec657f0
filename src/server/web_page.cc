#include "server/web_page.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/errors.h"

namespace barge {
namespace {

constexpr std::array<std::pair<std::string_view, const char*>, 5> kTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".json", "application/json"},
}};

// The page holds a key: nothing that isn't this server's may run in it, be sent to, or frame it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Whether one of the header's tags is `etag`: by the weak comparison, which GET asks for.
bool has_tag(std::string_view if_none_match, std::string_view etag) {
  if (if_none_match == "*") return true;
  return if_none_match.find(etag) != std::string_view::npos;  // its quotes are part of it
}

}  // namespace

ApiReply web_page(std::string_view name, std::string_view if_none_match) {
  const auto files = page_files();
  const auto file = std::ranges::find(files, name, &PageFile::name);
  if (file == files.end())
    throw RequestError(concat("The web page has no file '", name, "'."), "", "", 404);
  const auto type =
      std::ranges::find_if(kTypes, [&](const auto& known) { return name.ends_with(known.first); });
  ApiReply reply;
  reply.content_type = type == kTypes.end() ? "application/octet-stream" : type->second;
  reply.headers = {{"ETag", std::string(file->etag)},
                   {"Cache-Control", "no-cache"},  // ask whether it is the same: it may be upgraded
                   {"Content-Security-Policy", kPolicy},
                   {"Cross-Origin-Opener-Policy", "same-origin"},
                   {"Referrer-Policy", "no-referrer"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"X-Frame-Options", "DENY"}};
  const bool same = has_tag(if_none_match, file->etag);
  reply.status = same ? 304 : 200;
  reply.text = same ? "" : std::string(file->bytes);
  return reply;
}

}  // namespace barge
