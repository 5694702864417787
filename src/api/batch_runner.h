#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/batch_validator.h"
#include "base/backoff.h"
#include "base/time.h"
#include "store/job_store.h"

namespace helix::api {

struct LineKey {
    std::string batch;
    std::int64_t line = 0;
    auto operator<=>(const LineKey&) const = default;
};

// What became of a line that was sent.
struct LineAnswer {
    LineKey key;
    int status = 0;
    std::string request_id;
    std::string body;
};

// What the runner needs of the server around it.
class LineWorld {
  public:
    virtual ~LineWorld() = default;
    // Runs the line. There will be one LineAnswer later, unless the line is abandoned.
    virtual void send(const LineKey& key, const std::string& path, std::string body) = 0;
    virtual void abandon(const LineKey& key) = 0;
    // Whether a request to this model, which is served, would run now.
    virtual bool can_send(const std::string& model) = 0;
    virtual bool serves(const std::string& model) = 0;
    virtual std::int64_t unix_time() = 0;
    virtual base::TimePoint now() = 0;
};

// Takes batches from one status to the next and keeps their lines running, the oldest batch's
// first, a bounded number at a time. Everything it knows besides the store may be lost at any
// moment: a line without a result is then run again.
class BatchRunner {
  public:
    BatchRunner(store::JobStore& store, LineWorld& world, BatchLimits limits,
                std::int32_t max_in_flight)
        : store_(store), world_(world), limits_(limits), max_in_flight_(max_in_flight) {}

    void take(std::vector<LineAnswer> answers);
    // Stores the answers that were taken, all in one transaction. What cannot be stored now
    // (perhaps the disk is full) is stored later.
    base::Status commit();
    // The same, and after it nothing is under way any more: answers that still come are not waited
    // for.
    base::Status stop();
    // Calls commit(), then does what can be done now. Call it again after the time that it returns,
    // when answers have been taken, and when a batch was added or cancelled.
    base::Duration advance();
    std::int32_t in_flight() const { return in_flight_; }

  private:
    struct Retry {
        int attempts = 0;
        base::Backoff again;
    };
    struct Active {
        std::string model;  // once its lines run; "" = none named
        std::unique_ptr<BatchValidator> validator;
        std::deque<store::BatchLine> fetched;  // not sent yet
        std::int64_t last_fetched = 0;
        bool all_fetched = false;
        std::map<std::int64_t, store::BatchLine> in_flight;  // by line, as below
        std::map<std::int64_t, store::BatchLine> waiting;    // to be sent again
        std::map<std::int64_t, Retry> retries;
        bool told_of_model = false;
    };

    base::Status try_advance();
    base::Status advance_batch(const store::BatchRecord& batch, Active& active);
    base::Status validate(const store::BatchRecord& batch, Active& active);
    base::Status run(const store::BatchRecord& batch, Active& active);
    base::Status send_lines(const store::BatchRecord& batch, Active& active);
    // Chooses the lines that may be sent now and takes them from those that wait or were fetched.
    base::Status choose(const store::BatchRecord& batch, Active& active,
                        std::vector<store::BatchLine>& chosen);
    bool may_send(const store::BatchLine& line, std::size_t chosen) const;
    base::Status send(const store::BatchRecord& batch, Active& active, store::BatchLine line);
    base::Status fetch(const store::BatchRecord& batch, Active& active) const;
    // Ends a batch early, with a line in the error file for each request that was not run.
    base::Status end_early(const store::BatchRecord& batch, Active& active,
                           store::BatchStatus status);
    bool put_back(Active& active, const LineAnswer& answer);
    void keep(const LineKey& key, const store::BatchLine& line, int status,
              std::string_view request_id, std::string_view body);
    void wake_in(base::Duration time);
    void tell(const base::Status& status);

    store::JobStore& store_;
    LineWorld& world_;
    BatchLimits limits_;
    std::int32_t max_in_flight_;
    std::int32_t in_flight_ = 0;
    std::map<std::string, Active> active_;
    bool alone_ = false;                      // what is in flight runs with nothing beside it
    std::vector<store::LineResult> results_;  // to be committed
    std::vector<store::LineOfBatch> aside_;   // lines that were put back; to be committed, too
    base::Duration pause_;
    std::string trouble_;  // that was said; "" = all is well
    base::TimePoint told_trouble_;
};

}  // namespace helix::api
