#include "sim/report/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace helix::sim {
namespace {

constexpr int kCompute = 1;  // thread of every process
constexpr int kFirstLink =
    2;  // thread of the link to the coordinator; to node n: kFirstLink + 1 + n

int process_of(std::int32_t node) {
    return node + 2;  // the coordinator is 1
}
int thread_of_link(std::int32_t to) {
    return kFirstLink + 1 + to;
}

std::string json_text(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

base::Error failed(const std::string& path, const char* what) {
    const int code = errno;
    return {code == ENOENT ? base::Errc::not_found : base::Errc::io,
            path + ": " + what + ": " + (code != 0 ? std::strerror(code) : "unknown reason")};
}

}  // namespace

ChromeTrace::ChromeTrace(std::string path, const spec::ClusterSpec& cluster,
                         const ChromeTraceOptions& options)
    : path_(std::move(path)),
      options_(options),
      file_(path_, std::ios::binary | std::ios::trunc),
      kv_next_(cluster.nodes.size(), {std::numeric_limits<std::int64_t>::min()}) {
    for (const spec::NodeSpec& node : cluster.nodes) names_.push_back(node.name);
}

base::Result<std::unique_ptr<ChromeTrace>> ChromeTrace::create(const std::string& path,
                                                               const spec::ClusterSpec& cluster,
                                                               const spec::Placement& placement,
                                                               const ChromeTraceOptions& options) {
    CHECK(placement.layers.size() == cluster.nodes.size());
    errno = 0;
    std::unique_ptr<ChromeTrace> trace(new ChromeTrace(path, cluster, options));
    if (!trace->file_) return failed(path, "cannot be created");
    trace->file_ << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    trace->name_processes(cluster, placement);
    return trace;
}

void ChromeTrace::name_processes(const spec::ClusterSpec& cluster,
                                 const spec::Placement& placement) {
    const auto name = [&](std::int32_t node, const std::string& text) {
        const int process = process_of(node);
        write(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})",
                          process, json_text(text)));
        write(fmt::format(
            R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})",
            process, process));
    };
    name(spec::kCoordinator, "coordinator");
    for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
        const auto node = static_cast<std::int32_t>(i);
        const spec::LayerRange layers = placement.layers[i];
        std::string text = cluster.nodes[i].name;
        if (!cluster.nodes[i].type.empty()) text += ", " + cluster.nodes[i].type;
        text += layers.empty() ? ", no layers"
                               : fmt::format(", layers {}-{}", layers.begin, layers.end - 1);
        name(node, text);
        write(fmt::format(
            R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"batches"}}}})",
            process_of(node), kCompute));
    }
}

void ChromeTrace::write(const std::string& event) {
    if (any_) file_ << ",\n";
    any_ = true;
    file_ << event;
}

bool ChromeTrace::admit(base::TimePoint at) {
    if (at < options_.begin) return false;
    if (n_events_ < options_.most_events) {
        ++n_events_;
        return true;
    }
    if (left_out_++ == 0) cut_at_ = at;
    return false;
}

double ChromeTrace::micros(base::TimePoint at) const {
    return static_cast<double>((at - options_.begin).ns) * 1e-3;
}

std::string ChromeTrace::name_of(std::int32_t node) const {
    return node == spec::kCoordinator ? "coordinator" : names_.at(static_cast<std::size_t>(node));
}

void ChromeTrace::span(char phase, std::uint64_t request, base::TimePoint at,
                       const std::string& name) {
    write(fmt::format(
        R"({{"ph":"{}","cat":"request","id":{},"pid":1,"tid":1,"ts":{:.3f},"name":{}}})", phase,
        request, micros(at), json_text(name)));
}

bool ChromeTrace::request_created(std::uint64_t request, base::TimePoint at,
                                  std::int32_t prompt_tokens, std::int32_t output_tokens) {
    if (options_.follow_every == 0 || n_created_++ % options_.follow_every != 0) return false;
    if (!admit(at)) return false;
    span('b', request, at,
         fmt::format("request {}: {} + {} tokens", request, prompt_tokens, output_tokens));
    followed_[request] = {};
    enter(request, at, "waiting");
    return true;
}

// Ends the span that is open inside the request's and begins another, if phase is not null.
void ChromeTrace::enter(std::uint64_t request, base::TimePoint at, const char* phase) {
    Followed& state = followed_.at(request);
    if (state.phase != nullptr) span('e', request, at, state.phase);
    // What is open is always closed, so only beginnings count towards the limit.
    state.phase = phase != nullptr && admit(at) ? phase : nullptr;
    if (state.phase != nullptr) span('b', request, at, state.phase);
}

void ChromeTrace::request_admitted(std::uint64_t request, base::TimePoint at,
                                   std::span<const PipelineStage> /*pipeline*/) {
    const auto found = followed_.find(request);
    if (found == followed_.end()) return;
    enter(request, at, found->second.has_token ? "decoding again" : "prompt");
}

void ChromeTrace::token(std::uint64_t request, base::TimePoint at) {
    if (followed_.empty()) return;
    const auto found = followed_.find(request);
    if (found == followed_.end() || found->second.has_token) return;
    found->second.has_token = true;
    enter(request, at, "decoding");
}

void ChromeTrace::request_preempted(std::uint64_t request, base::TimePoint at) {
    if (followed_.contains(request)) enter(request, at, "preempted");
}

void ChromeTrace::request_finished(std::uint64_t request, base::TimePoint at) {
    end(request, at);
}

void ChromeTrace::request_rejected(std::uint64_t request, base::TimePoint at) {
    if (followed_.contains(request)) enter(request, at, "rejected");
    end(request, at);
}

void ChromeTrace::end(std::uint64_t request, base::TimePoint at) {
    const auto found = followed_.find(request);
    if (found == followed_.end()) return;
    enter(request, at, nullptr);
    if (found->second.arrows > 0) arrow(request, found->second, true);
    span('e', request, at, "request");
    followed_.erase(found);
}

void ChromeTrace::node_computed(const NodeBatch& batch) {
    if (!admit(batch.end)) return;
    const char* kind = batch.decodes == 0         ? "prompt"
                       : batch.prompt_tokens == 0 ? "decode"
                                                  : "decode + prompt";
    write(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":"{}",)"
                      R"("args":{{"decodes":{},"prompt_tokens":{},"layers":"{}-{}"}}}})",
                      process_of(batch.node), kCompute, micros(batch.begin),
                      (batch.end - batch.begin).seconds() * 1e6, kind, batch.decodes,
                      batch.prompt_tokens, batch.layers.begin, batch.layers.end - 1));
}

void ChromeTrace::link_carried(const LinkTransfer& transfer) {
    if (!admit(transfer.end)) return;
    const int process = process_of(transfer.from);
    const int thread = thread_of_link(transfer.to);
    if (named_links_.emplace(transfer.from, transfer.to).second) {
        write(fmt::format(
            R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", process,
            thread, json_text("to " + name_of(transfer.to))));
    }
    write(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":"transfer",)"
                      R"("args":{{"bytes":{:.0f},"waited_ms":{:.3f}}}}})",
                      process, thread, micros(transfer.begin),
                      (transfer.end - transfer.begin).seconds() * 1e6, transfer.bytes,
                      transfer.waited.ms()));
}

void ChromeTrace::kv_used(std::int32_t node, base::TimePoint at, double used) {
    base::TimePoint& next = kv_next_.at(static_cast<std::size_t>(node));
    if (at < next || !admit(at)) return;
    next = at + options_.kv_every;
    write(
        fmt::format(R"({{"ph":"C","pid":{},"ts":{:.3f},"name":"KV memory","args":{{"used":{}}}}})",
                    process_of(node), micros(at), used));
}

void ChromeTrace::request_computed(const RequestWork& work) {
    const auto found = followed_.find(work.request);
    if (found == followed_.end()) return;
    Followed& state = found->second;
    // Layer after layer on one node needs no arrow.
    const bool goes_on = state.node == work.node && state.next_layer == work.layers.begin;
    state.next_layer = work.layers.end;
    if (goes_on) return;
    if (state.node >= 0) arrow(work.request, state, false);
    state.node = work.node;
    state.batch_begin = work.begin;
}

// Bound to the batch that begins at the same time in the same thread.
void ChromeTrace::arrow(std::uint64_t request, Followed& state, bool last) {
    // The end of a flow that has begun is always written.
    if (!last && !admit(state.batch_begin)) return;
    const char phase = last ? 'f' : state.arrows == 0 ? 's' : 't';
    ++state.arrows;
    write(fmt::format(
        R"({{"ph":"{}","bp":"e","cat":"flow","id":{},"pid":{},"tid":{},"ts":{:.3f},"name":"request {}"}})",
        phase, request, process_of(state.node), kCompute, micros(state.batch_begin), request));
}

void ChromeTrace::mark(base::TimePoint at, std::string_view text) {
    if (!admit(at)) return;
    write(fmt::format(R"({{"ph":"i","s":"g","pid":1,"tid":1,"ts":{:.3f},"name":{}}})", micros(at),
                      json_text(std::string(text))));
}

base::Status ChromeTrace::finish(base::TimePoint now) {
    std::vector<std::uint64_t> open;
    for (const auto& [request, state] : followed_) open.push_back(request);
    std::sort(open.begin(), open.end());
    for (const std::uint64_t request : open) end(request, now);
    std::string note = "complete";
    if (left_out_ > 0) {
        note = fmt::format("cut at {:.3f} s: {} events were left out after the limit of {}",
                           micros(cut_at_) * 1e-6, left_out_, options_.most_events);
        write(fmt::format(R"({{"ph":"i","s":"g","pid":1,"tid":1,"ts":{:.3f},"name":{}}})",
                          micros(cut_at_), json_text(note)));
    }
    errno = 0;
    file_ << "\n],\"otherData\":{\"writer\":\"helix simulate\",\"events\":" << n_events_
          << ",\"left_out\":" << left_out_ << ",\"note\":" << json_text(note) << "}}\n";
    file_.close();
    if (!file_) return failed(path_, "cannot be written");
    return base::Ok{};
}

}  // namespace helix::sim
