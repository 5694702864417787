#pragma once

// Asio's C++20 coroutines, with what Boost 1.74 needs around them. Include this before anything
// else of Asio.

// With clang, Boost 1.74 looks for the coroutines of an older draft.
#if defined(__clang__) && !defined(BOOST_ASIO_HAS_CO_AWAIT)
#define BOOST_ASIO_HAS_CO_AWAIT 1
#endif

#include <utility>  // awaitable.hpp uses std::exchange without it

// The order of these two matters.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
