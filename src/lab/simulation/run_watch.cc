#include "lab/simulation/run_watch.h"

#include "spec/text_file.h"
#include "view/run/html_report.h"

namespace helix::lab {
namespace {

base::TimePoint at(double seconds) {
    return {base::from_seconds(seconds).ns};
}

}  // namespace

base::Result<std::unique_ptr<RunWatch>> RunWatch::create(
    const WatchOptions& options, const spec::ClusterSpec& cluster, const spec::Placement& placement,
    std::int32_t n_layers, const std::vector<double>& kv_capacity, double start_s, double warmup_s,
    double duration_s, bool offline) {
    auto watch = std::make_unique<RunWatch>();
    watch->options_ = options;
    watch->end_ = at(start_s + warmup_s + duration_s);
    sim::RunDetailOptions detail;
    detail.window_begin = at(start_s + warmup_s);
    detail.window_end = watch->end_;
    detail.ttft_slo_s = options.ttft_slo_s;
    detail.tpot_slo_s = options.tpot_slo_s;
    detail.from_admission = offline;
    watch->detail_ =
        std::make_unique<sim::RunDetailObserver>(cluster, placement, kv_capacity, detail);
    std::vector<sim::Observer*> observers;
    if (!options.html.empty()) {
        sim::RecorderOptions recorder;
        recorder.begin = at(start_s);
        recorder.window_begin = at(start_s + warmup_s);
        recorder.window_end = watch->end_;
        recorder.ttft_limit_s = options.ttft_slo_s;
        recorder.tpot_limit_s = options.tpot_slo_s;
        recorder.from_admission = offline;
        watch->recorder_ =
            std::make_unique<sim::Recorder>(cluster, placement, n_layers, kv_capacity, recorder);
        observers.push_back(watch->recorder_.get());
    }
    if (!options.trace_out.empty()) {
        sim::ChromeTraceOptions trace;
        trace.begin = at(start_s + warmup_s);
        TRY(watch->trace_, sim::ChromeTrace::create(options.trace_out, cluster, placement, trace));
        observers.push_back(watch->trace_.get());
    }
    if (!observers.empty()) {
        observers.push_back(watch->detail_.get());
        watch->observers_ = std::make_unique<sim::ObserverList>(std::move(observers));
    }
    return watch;
}

base::Status RunWatch::finish(sim::SimReport& report, const std::string& title,
                              std::vector<std::pair<std::string, std::string>> facts) {
    report.detail = detail_->detail();
    if (trace_) TRY_VOID(trace_->finish(end_));
    if (!recorder_) return base::Ok{};
    const view::ReportInfo info{.title = title,
                                .facts = std::move(facts),
                                .max_flow_tokens_per_s = report.max_flow_tokens_per_s};
    return spec::write_text_file(options_.html,
                                 view::html_report(recorder_->recording(end_), info));
}

}  // namespace helix::lab
