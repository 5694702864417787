#include "node/engine_thread.h"

#include <exception>
#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "node/clock.h"
#include "node/slow_down.h"

namespace helix::node {

using base::Errc;
using base::Error;
using base::Result;

EngineThread::EngineThread(std::shared_ptr<engine::BackendProvider> provider,
                           engine::BackendRequest request, double speed, KeptModel& kept,
                           const net::Wakeup& done)
    : provider_(std::move(provider)),
      request_(std::move(request)),
      speed_(speed),
      kept_(kept),
      done_(done) {
    thread_ = std::thread([this] { work(); });
}

EngineThread::~EngineThread() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void EngineThread::push(Task task) {
    {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
}

void EngineThread::profile() {
    push(ProfileTask{});
}

void EngineThread::load(std::uint64_t epoch, spec::LayerRange layers) {
    push(LoadTask{epoch, layers});
}

void EngineThread::run(core::BatchPlan plan, std::map<std::uint64_t, net::Frame> buffers) {
    push(RunTask{std::move(plan), std::move(buffers)});
}

std::vector<EngineEvent> EngineThread::take_events() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
}

void EngineThread::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
        if (stopping_) return;
        Task task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        EngineEvent event = std::visit([this](const auto& t) { return perform(t); }, task);
        task = ProfileTask{};  // gives its buffers back
        lock.lock();
        events_.push_back(std::move(event));
        done_.wake();
    }
}

EngineEvent EngineThread::perform(const ProfileTask& /*task*/) {
    try {
        Result<engine::SelfProfile> profile = provider_->profile(request_);
        if (profile.ok() && speed_ < 1) {
            profile->decode_s_per_layer /= speed_;
            profile->decode_batch_s_per_layer /= speed_;
            profile->prefill_s_per_token_layer /= speed_;
        }
        const bool lost = !profile.ok() && is_useless(profile.error().code);
        return EngineProfiled{std::move(profile), lost};
    } catch (const std::exception& exception) {  // from a library, or for lack of memory
        return EngineProfiled{Error{Errc::unavailable, exception.what()}};
    }
}

// Whether the device is to blame for what failed when it was opened. It has to prove itself.
bool EngineThread::is_useless(Errc failed) const {
    return failed != Errc::invalid && !provider_->prove().ok();
}

Result<std::int64_t> EngineThread::load_layers(spec::LayerRange layers) {
    try {
        if (kept_.backend == nullptr) {
            TRY(std::unique_ptr<engine::Backend> made, provider_->make(request_));
            kept_.backend = std::move(made);
        }
        return kept_.backend->load(layers);
    } catch (const std::exception& exception) {
        return Error{Errc::unavailable, exception.what()};
    }
}

EngineEvent EngineThread::perform(const LoadTask& task) {
    const auto read_bytes = [&] {
        return kept_.weights == nullptr ? 0 : kept_.weights->bytes_read();
    };
    const base::TimePoint start = now();
    const std::int64_t before = read_bytes();
    EngineLoaded loaded{task.epoch, task.layers, load_layers(task.layers), 0, {}, "", 0, nullptr};
    loaded.read_from = kept_.tally.take();
    loaded.read_bytes = read_bytes() - before;
    loaded.took = now() - start;
    if (!loaded.pages.ok()) {
        loaded.lost = kept_.backend != nullptr ? kept_.backend->lost()
                                               : is_useless(loaded.pages.error().code);
        return loaded;
    }
    loaded.swap_pages = kept_.backend->swap_pages();
    loaded.backend = kept_.backend;
    return loaded;
}

EngineEvent EngineThread::perform(const RunTask& task) {
    CHECK(kept_.backend != nullptr);
    const auto hidden = static_cast<std::size_t>(kept_.backend->hidden_size());
    const engine::PayloadRows rows = [&](const core::PayloadRef& ref) -> std::span<const float> {
        const auto found = task.buffers.find(ref.buffer);
        CHECK(found != task.buffers.end());
        const std::span<const std::byte> bytes = found->second.bytes;
        const std::size_t first = ref.first_row * hidden;
        const std::size_t count = ref.rows * hidden;
        CHECK((first + count) * sizeof(float) <= bytes.size());
        return {reinterpret_cast<const float*>(bytes.data()) + first, count};
    };
    const base::TimePoint start = now();
    const double cpu_start_s = thread_cpu_s();
    try {
        EngineRan ran{task.plan.id, kept_.backend->run(task.plan, rows), {}};
        ran.took = now() - start;
        ran.lost = !ran.result.ok() && kept_.backend->lost();
        if (speed_ < 1) {
            std::optional<double> computed_s;
            if (kept_.backend->compute_threads() == 1) computed_s = thread_cpu_s() - cpu_start_s;
            const base::Duration wanted = slowed_down(ran.took, computed_s, speed_);
            std::this_thread::sleep_for(std::chrono::nanoseconds(wanted.ns - ran.took.ns));
            ran.took = wanted;
        }
        return ran;
    } catch (const std::exception& exception) {
        return EngineRan{task.plan.id, Error{Errc::internal, exception.what()}, now() - start};
    }
}

}  // namespace helix::node
