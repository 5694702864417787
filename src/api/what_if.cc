#include "api/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include <nlohmann/json.hpp>

#include "api/context.h"
#include "api/field_reader.h"
#include "net/sse.h"

namespace helix::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostChanges = 100;
constexpr std::size_t kMostName = 256;
constexpr std::int32_t kMostMachines = 100;  // that are added, of all changes together
constexpr std::size_t kMostBody = std::size_t{64} << 10U;
constexpr double kMostFactor = 1000;
constexpr double kMostBandwidth = 1e13;
constexpr double kMostLatency_s = 60;

// Reads the parts of one change; the first thing that is wrong becomes error.
class ChangeReader {
  public:
    ChangeReader(const Json& object, std::size_t index) : object_(object), index_(index) {}

    std::optional<WhatIfChange> read() {
        if (!object_.is_object()) {
            fail("", "expected an object, got " + kind_of(object_));
            return {};
        }
        std::string kind;
        for (const char* one : {"add", "remove", "slow", "link"}) {
            if (!object_.contains(one)) continue;
            if (!kind.empty()) {
                fail("", fmt::format("has both '{}' and '{}'; a change is one of them", kind, one));
                return {};
            }
            kind = one;
        }
        if (kind == "add") return read_add();
        if (kind == "remove") return WhatIfRemove{name("remove")};
        if (kind == "slow") {
            return WhatIfSlow{name("slow"), number("factor", 1 / kMostFactor, kMostFactor)};
        }
        if (kind == "link") return read_link();
        fail("", "expected one of 'add', 'remove', 'slow', 'link'");
        return {};
    }
    const std::optional<ApiError>& error() const { return error_; }

  private:
    void fail(const std::string& field, const std::string& message) {
        if (error_) return;
        const std::string at =
            fmt::format("changes[{}]{}{}", index_, field.empty() ? "" : ".", field);
        error_ = bad_field(at, fmt::format("'{}': {}", at, message));
    }
    const Json* find(const char* field) const {
        const auto found = object_.find(field);
        return found == object_.end() || found->is_null() ? nullptr : &*found;
    }
    std::string text_of(const char* field, const Json& value) {
        if (!value.is_string()) {
            fail(field, "expected a string, got " + kind_of(value));
            return {};
        }
        const auto& text = value.get_ref<const std::string&>();
        if (text.size() > kMostName)
            fail(field, fmt::format("expected at most {} bytes", kMostName));
        return text;
    }
    std::string name(const char* field) {
        const Json* value = find(field);
        std::string text = value == nullptr ? std::string() : text_of(field, *value);
        if (text.empty()) fail(field, "expected a name");
        return text;
    }
    double number(const char* field, double low, double high) {
        const Json* value = find(field);
        if (value == nullptr) {
            fail(field, "is required");
            return 0;
        }
        const double read = value->is_number() ? value->get<double>() : std::nan("");
        if (!(read >= low && read <= high)) {
            fail(field, fmt::format("expected a number from {} to {}", low, high));
        }
        return read;
    }
    WhatIfChange read_add() {
        WhatIfAdd add;
        add.type = name("add");
        if (find("count") != nullptr) {
            const auto count = as_integer(*find("count"));
            if (!count || *count < 1 || *count > kMostMachines) {
                fail("count", fmt::format("expected a whole number from 1 to {}", kMostMachines));
            } else {
                add.count = static_cast<std::int32_t>(*count);
            }
        }
        if (const Json* region = find("region")) add.region = text_of("region", *region);
        if (find("bandwidth_bytes_per_s") != nullptr || find("latency_s") != nullptr) {
            add.network = {number("bandwidth_bytes_per_s", 1, kMostBandwidth),
                           number("latency_s", 0, kMostLatency_s)};
        }
        return add;
    }
    WhatIfChange read_link() {
        WhatIfLink link;
        const Json& ends = *object_.find("link");
        if (!ends.is_array() || ends.size() != 2) {
            fail("link", "expected an array of two names");
            return link;
        }
        link.from = text_of("link", ends[0]);
        link.to = text_of("link", ends[1]);
        link.bandwidth_bytes_per_s = number("bandwidth_bytes_per_s", 1, kMostBandwidth);
        if (find("latency_s") != nullptr) link.latency_s = number("latency_s", 0, kMostLatency_s);
        return link;
    }

    const Json& object_;
    std::size_t index_;
    std::optional<ApiError> error_;
};

// What is not there was named by the question, so the question is what is wrong.
ApiError error_of(const base::Error& error) {
    if (error.code == base::Errc::not_found || error.code == base::Errc::invalid) {
        return bad_field("changes", error.message);
    }
    return from_error(error);
}

std::string event(std::string_view name, std::string_view data) {
    return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

}  // namespace

std::optional<ApiError> read_what_if(std::string_view body, WhatIfQuestion& question) {
    if (body.size() > kMostBody) {
        return bad_field("", fmt::format("The question is longer than {} bytes.", kMostBody));
    }
    Json object;
    if (auto error = parse_json_object(body, object)) return error;
    FieldReader fields(object);
    fields.boolean(field::kStream, question.stream);
    fields.boolean(field::kSuggest, question.suggest);
    auto seconds = static_cast<float>(question.seconds);
    fields.number(field::kSeconds, seconds);
    question.seconds = seconds;
    if (fields.failed()) return fields.error();
    const Json* changes = fields.find(field::kChanges);
    if (changes == nullptr) return {};
    if (!changes->is_array() || changes->size() > kMostChanges) {
        fields.fail(field::kChanges,
                    fmt::format("expected an array of at most {} changes", kMostChanges));
        return fields.error();
    }
    std::int32_t added = 0;
    for (std::size_t i = 0; i < changes->size(); ++i) {
        ChangeReader reader((*changes)[i], i);
        auto change = reader.read();
        if (reader.error()) return reader.error();
        if (const auto* add = std::get_if<WhatIfAdd>(&*change)) added += add->count;
        if (added > kMostMachines) {
            fields.fail(field::kChanges,
                        fmt::format("expected at most {} machines that are added", kMostMachines));
            return fields.error();
        }
        question.changes.push_back(std::move(*change));
    }
    return {};
}

WhatIfDesk::~WhatIfDesk() {
    stop();
}

void WhatIfDesk::ask(ApiContext& context, const std::shared_ptr<net::HttpExchange>& exchange,
                     WhatIfQuestion question) {
    if (job_ != nullptr && !job_->over) {
        return context.refuse(*exchange, {409,
                                          "Another what-if question is being worked on; ask again "
                                          "when it is answered.",
                                          "invalid_request_error", "", "busy", 0});
    }
    if (thread_.joinable()) thread_.join();  // it has said that it is over
    job_ = std::make_shared<Job>();
    job_->exchange = exchange;
    job_->question = std::move(question);
    job_->written = context.options.clock();
    exchange->on_gone([job = std::weak_ptr(job_)] {
        if (const auto gone = job.lock()) gone->stopped = true;
    });
    if (job_->question.stream) {
        exchange->begin_stream(200, net::kSseContentType,
                               {{"cache-control", "no-store"}, {"x-accel-buffering", "no"}});
        exchange->write(net::kSsePing);
    }
    begin(context, job_);
}

void WhatIfDesk::begin(ApiContext& context, const std::shared_ptr<Job>& job) {
    thread_ = std::thread([c = &context, job] {
        WhatIfWatch watch;
        watch.stopped = [job] { return job->stopped.load(); };
        watch.progress = [c, job](const std::string& phase, double share_done) {
            if (!job->question.stream) return;
            const Json told = {{"phase", phase}, {"share_done", share_done}};
            c->post([c, job, text = event("progress", told.dump())] { tell(*c, *job, text); });
        };
        base::Result<std::string> answer = base::Error{};
        try {
            answer = c->options.pages.what_if(job->question, watch);
        } catch (const std::exception& exception) {  // for lack of memory, or from a solver library
            answer = base::Error{base::Errc::internal, exception.what()};
        }
        job->over = true;
        c->post([c, job, answer = std::move(answer)] { conclude(*c, *job, answer); });
    });
}

void WhatIfDesk::tell(ApiContext& context, Job& job, const std::string& text) {
    job.written = context.options.clock();
    if (job.exchange->open() && job.exchange->started()) job.exchange->write(text);
}

void WhatIfDesk::conclude(ApiContext& context, Job& job, const base::Result<std::string>& answer) {
    job.exchange->on_gone({});
    if (!job.exchange->open()) return;
    if (!job.question.stream) {
        if (!answer.ok()) return context.refuse(*job.exchange, error_of(answer.error()));
        net::HttpResponse response;
        response.body = *answer;
        return context.respond(*job.exchange, response);
    }
    tell(context, job,
         answer.ok() ? event("answer", *answer)
                     : event("error", error_json(error_of(answer.error()))));
    job.exchange->end_stream();
}

// Comments, so that nobody takes a search that goes on for a connection that broke.
void WhatIfDesk::on_tick(ApiContext& context) {
    if (job_ == nullptr || job_->over || !job_->question.stream) return;
    if (context.options.clock() - job_->written < context.options.ping_interval) return;
    tell(context, *job_, std::string(net::kSsePing));
}

void WhatIfDesk::shut_down(ApiContext& context) {
    if (job_ == nullptr || job_->over) return;
    job_->stopped = true;
    conclude(context, *job_, base::Error{base::Errc::unavailable, "The server is shutting down."});
}

void WhatIfDesk::stop() {
    if (job_ != nullptr) job_->stopped = true;
    if (thread_.joinable()) thread_.join();
}

}  // namespace helix::api
