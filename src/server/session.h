#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>

#include "server/api.h"
#include "server/data_quota.h"
#include "server/metrics.h"
#include "server/model_slot.h"

namespace barge {

/// What sessions share; must outlive them.
struct SessionContext {
  const ServerOptions& options;
  const DataDirectory& directory;
  JobStore& store;
  DataQuota& quota;
  Api& api;
  const ModelSlot& models;
  Metrics& metrics;
  boost::asio::thread_pool& pool;  // for work that would hold up the others
  std::size_t& held_bytes;         // of bodies in memory; the HTTP thread's
};

/// Serves one connection, request by request, until the client or an error ends it. Never throws.
boost::asio::awaitable<void> serve_connection(boost::asio::ip::tcp::socket socket,
                                              SessionContext context);

/// Tells a client that there are too many, without reading what it asks. Never throws.
boost::asio::awaitable<void> refuse_connection(boost::asio::ip::tcp::socket socket,
                                               SessionContext context);

}  // namespace barge
