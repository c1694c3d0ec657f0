#include "server/browser_guard.h"

#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>
#include <string>
#include <string_view>

#include "core/errors.h"

namespace barge {
namespace {

namespace http = boost::beast::http;
using boost::beast::iequals;

// "[::1]:8000" → "::1"
std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

// Pages have names with a dot, which their authors may have lead anywhere; addresses lead nowhere
// else, nor do names that only this machine or its network knows.
bool is_of_this_machine(std::string_view host) {
  constexpr std::string_view kSuffix = ".localhost";
  if (host.find('.') == std::string_view::npos) return true;  // also IPv6
  if (host.size() > kSuffix.size() && iequals(host.substr(host.size() - kSuffix.size()), kSuffix))
    return true;
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(host), error);
  return !error;
}

bool changes_something(http::verb method) {
  return method != http::verb::get && method != http::verb::head && method != http::verb::options;
}

// Browsers say where a request comes from; those that don't yet, at least say which page's it is.
bool is_foreign(const http::request_header<>& header) {
  const std::string_view site = header["Sec-Fetch-Site"];
  if (!site.empty()) return site != "same-origin" && site != "none";
  const std::string_view origin = header[http::field::origin];
  if (origin.empty()) return false;
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ||
         !iequals(origin.substr(scheme + 3), header[http::field::host]);
}

}  // namespace

void check_site(const http::request_header<>& header, bool loopback_only) {
  const std::string_view host = header[http::field::host];
  if (loopback_only && !host.empty() && !is_of_this_machine(host_of(host)))
    throw RequestError(
        concat("This server asks for no key and answers to names of its own machine ",
               "only, not to the Host that was asked for. Ask for 'localhost', or ",
               "start it with --api-key-file or --allow-anonymous."),
        "", "", 403);
  if (changes_something(header.method()) && is_foreign(header))
    throw RequestError("Requests from pages of other sites are refused.", "", "", 403);
}

}  // namespace barge
