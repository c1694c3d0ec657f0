#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>

namespace barge {

/// Refuses what a browser sends on behalf of a page that isn't the server's own: whoever visits it
/// may reach the server, the page's author must not. Other clients never notice. `loopback_only`:
/// the server asks for no key and trusts whoever is on this machine; then it answers to names of
/// this machine only, for a page may have its own name lead here. Throws RequestError (403).
void check_site(const boost::beast::http::request_header<>& header, bool loopback_only);

}  // namespace barge
