#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/tracing/span.h"
#include "base/result.h"
#include "base/time.h"

namespace helix::api {

struct OtlpOptions {
    std::string endpoint;  // of the collector: "http://127.0.0.1:4318"; https is spoken, too
    std::string program_version;
    std::size_t max_queued_spans = 8192;               // more are dropped
    std::size_t max_batch_spans = 1024;                // of one POST, but for the last request's
    base::Duration delay = base::from_ms(1000);        // that spans wait for others
    base::Duration call_limit = base::from_ms(10000);  // of one POST
    base::Duration first_pause = base::from_ms(500);   // before a second try, then twice as long
    base::Duration longest_pause = base::from_ms(15000);
    base::Duration give_up_after = base::from_ms(120000);  // of trying to send a batch
};

// What became of spans so far. Those that are neither wait.
struct OtlpCounts {
    std::uint64_t exported = 0;  // the collector took them
    // The queue was full, the collector refused them, or it did not answer for too long.
    std::uint64_t dropped = 0;
};

// Sends spans to an OpenTelemetry collector by OTLP over HTTP, as JSON, on a thread of its own.
//
// Promises: add() never waits; no more spans wait than the options say, and every span is counted
// once, as exported or as dropped. A batch is sent again, later and later, when there is no
// connection or the answer is 429, 502, 503 or 504 (after its Retry-After, if it has one); other
// answers of 400 and above drop it. The program's log tells of the first trouble, and when it is
// over.
class OtlpExporter {
  public:
    // The error names the endpoint. The collector need not be there yet.
    static base::Result<std::unique_ptr<OtlpExporter>> create(OtlpOptions options);
    ~OtlpExporter();  // stop(0)
    OtlpExporter(const OtlpExporter&) = delete;
    OtlpExporter& operator=(const OtlpExporter&) = delete;

    // Any thread. All of these spans are taken or, if there is no room for them, all are dropped.
    void add(std::vector<Span> spans);
    // Any thread.
    OtlpCounts counts() const;
    // Sends what waits, for up to grace (looking up the collector's host may take longer), and
    // drops the rest. From then on add() drops.
    void stop(base::Duration grace);

    struct Impl;

  private:
    explicit OtlpExporter(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace helix::api
