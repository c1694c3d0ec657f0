#include "server/http_framing.h"

#include <boost/beast/core/string.hpp>
#include <iterator>

#include "core/errors.h"

namespace barge {
namespace {

namespace http = boost::beast::http;
using boost::beast::iequals;

[[noreturn]] void refuse(const std::string& why, int status = 400) {
  throw RequestError(concat("The HTTP request can't be read: ", why), "", "", status);
}

std::size_t count(const http::request_header<>& header, http::field name) {
  const auto [first, last] = header.equal_range(name);
  return static_cast<std::size_t>(std::distance(first, last));
}

}  // namespace

void check_framing(std::string_view raw, const http::request_header<>& header,
                   const HttpLimits& limits) {
  if (header.target().size() > limits.max_target_bytes)
    refuse(concat("its URL has ", header.target().size(), " bytes, at most ",
                  limits.max_target_bytes, " are read."),
           414);
  const auto num_fields = static_cast<std::size_t>(std::distance(header.begin(), header.end()));
  if (num_fields > limits.max_fields)
    refuse(
        concat("it has ", num_fields, " header fields, at most ", limits.max_fields, " are read."),
        431);
  // Read as one line by some and as a field of its own by others (RFC 9112, 5.2).
  if (raw.find("\r\n ") != std::string_view::npos || raw.find("\r\n\t") != std::string_view::npos)
    refuse("a header field is folded over several lines.");

  const bool is_old = header.version() < 11;
  if (header.version() != 10 && header.version() != 11) refuse("wanted HTTP/1.0 or HTTP/1.1.");
  const std::size_t hosts = count(header, http::field::host);
  if (hosts > 1 || (hosts == 0 && !is_old)) refuse(concat("wanted one Host, got ", hosts, '.'));

  const std::size_t lengths = count(header, http::field::content_length);
  const std::size_t encodings = count(header, http::field::transfer_encoding);
  if (lengths > 1) refuse(concat("wanted one Content-Length, got ", lengths, '.'));
  if (lengths == 1 &&
      header[http::field::content_length].find_first_not_of("0123456789") != std::string_view::npos)
    refuse("Content-Length isn't a number.");
  if (encodings > 0) {
    if (lengths > 0) refuse("it has both Content-Length and Transfer-Encoding.");
    if (is_old) refuse("HTTP/1.0 has no Transfer-Encoding.");
    if (encodings > 1 || !iequals(header[http::field::transfer_encoding], "chunked"))
      refuse("the only Transfer-Encoding that is understood is 'chunked'.");
  }
  const auto expected = header[http::field::expect];
  if (!expected.empty() && !is_old && !iequals(expected, "100-continue"))
    refuse("nothing but '100-continue' can be expected.", 417);
}

}  // namespace barge
