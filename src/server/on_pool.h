#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>

namespace barge {

/// Does `work` on a thread of `pool` while the coroutine waits; what it throws comes out here.
/// `work` is the caller's, who keeps it: g++ 12 destroys some temporaries of co_await too early.
inline boost::asio::awaitable<void> on_pool(boost::asio::thread_pool& pool,
                                            const std::function<void()>& work) {
  const auto call = [](const std::function<void()>& what) -> boost::asio::awaitable<void> {
    what();
    co_return;
  };
  co_await boost::asio::co_spawn(pool, call(work), boost::asio::use_awaitable);
}

}  // namespace barge
