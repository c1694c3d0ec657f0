#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <string_view>

#include "server/http_limits.h"

namespace barge {

/// Refuses headers that another program on the way, a proxy, could understand as the beginning of
/// another body than barge does: of such differences smuggled requests are made. `raw` is the
/// request line and the fields as they came, `header` what was read from them. Throws RequestError:
/// 400, 414 and 431 for too much of it, 417 for what can't be expected.
void check_framing(std::string_view raw, const boost::beast::http::request_header<>& header,
                   const HttpLimits& limits);

}  // namespace barge
