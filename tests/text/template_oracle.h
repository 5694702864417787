#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

// python3-jinja2 as the judge of our interpreter, through tools/template_oracle.py.

namespace helix::text::test_support {

struct OracleJob {
    std::string source;
    nlohmann::ordered_json context;
};

struct OracleAnswer {
    std::optional<std::string> output;  // absent: it raised
    std::string error;
    bool own_words = false;  // the error is what the template gave to raise_exception
};

// Whether /usr/bin/python3 has jinja2.
bool have_oracle();

// One answer per job, from one run of the tool. Aborts the test program if the tool itself fails.
std::vector<OracleAnswer> ask_oracle(const std::vector<OracleJob>& jobs);

// What our interpreter gives, in the same form.
OracleAnswer render_ours(const OracleJob& job);

// Empty if both print the same or both raise (the same words, if they are the template's); else
// what differs, with everything needed to see it again.
std::string difference(const OracleJob& job, const OracleAnswer& oracle, const OracleAnswer& ours);

}  // namespace helix::text::test_support
