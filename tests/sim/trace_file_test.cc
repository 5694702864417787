#include "sim/load/trace_file.h"
#include "paper_data.h"

#include <gtest/gtest.h>

#include <numeric>

namespace helix::sim::trace_file_test {
namespace {

TEST(TraceFile, OwnFormatReadsBackExactly) {
    const std::vector<TraceRequest> requests = {{0, 1, 1}, {0.1, 20, 3}, {1.0 / 3, 2048, 1024}};
    const auto trace = parse_trace(format_trace(requests, TraceFormat::timed), "t.csv");
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_EQ(trace->format, TraceFormat::timed);
    EXPECT_EQ(trace->requests, requests);
}

TEST(TraceFile, AzureTimesCountFromTheFirstRow) {
    const auto trace = parse_trace(
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 23:59:59.5000000,374,44\r\n"
        "2023-11-17 00:00:01.7500000,396,109\r\n"
        "2023-11-17T02:00:01.750000001+02:00,7,8\r\n"
        "2023-11-17 00:00:02Z,9,10\r\n",
        "azure.csv");
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_EQ(trace->format, TraceFormat::azure);
    ASSERT_EQ(trace->requests.size(), 4U);
    EXPECT_EQ(trace->requests[0], (TraceRequest{0, 374, 44}));
    EXPECT_DOUBLE_EQ(trace->requests[1].arrival_s, 2.25);
    EXPECT_NEAR(trace->requests[2].arrival_s, 2.250000001, 1e-12);
    EXPECT_DOUBLE_EQ(trace->requests[3].arrival_s, 2.5);
}

TEST(TraceFile, AzureFormatReadsBackTo100Ns) {
    const std::vector<TraceRequest> requests = {{0, 5, 6}, {86399.9999999, 20, 3}, {1e6, 1, 1}};
    const std::string text = format_trace(requests, TraceFormat::azure);
    EXPECT_NE(text.find("2000-01-01 23:59:59.9999999,20,3\n"), std::string::npos) << text;
    const auto trace = parse_trace(text, "t.csv");
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_NEAR(trace->requests[i].arrival_s, requests[i].arrival_s, 1e-7);
        EXPECT_EQ(trace->requests[i].prompt_tokens, requests[i].prompt_tokens);
    }
}

TEST(TraceFile, LengthsOnlyInAnyOrderAmongOtherColumns) {
    const auto trace =
        parse_trace("\xef\xbb\xbfid,output_tokens,prompt_tokens\nx,7,100\n\ny,8,200", "l.csv");
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_EQ(trace->format, TraceFormat::lengths);
    EXPECT_EQ(trace->requests, (std::vector<TraceRequest>{{0, 100, 7}, {0, 200, 8}}));
    EXPECT_EQ(format_trace(trace->requests, TraceFormat::lengths),
              "prompt_tokens,output_tokens\n100,7\n200,8\n");
}

TEST(TraceFile, CountsReadBackAndAreCounted) {
    const std::vector<std::int64_t> counts = {2, 0, 1};
    const auto read = parse_interval_counts(format_interval_counts(counts), "c.csv");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(*read, counts);
    EXPECT_EQ(count_intervals({{0, 1, 1}, {2.99, 1, 1}, {6, 1, 1}}), counts);
}

struct Malformed {
    const char* text;
    const char* message;
};

TEST(TraceFile, MalformedTracesAreRefusedWithFileLineAndExpectation) {
    const Malformed cases[] = {
        {"", "f.csv: is empty, expected a header line"},
        {"\n\r\n", "f.csv: is empty, expected a header line"},
        {"a,b\n1,2\n",
         "f.csv:1: expected a header with the columns arrival_s,prompt_tokens,output_tokens or "
         "TIMESTAMP,ContextTokens,GeneratedTokens or prompt_tokens,output_tokens, found \"a,b\""},
        {"prompt_tokens,output_tokens\n",
         "f.csv: has a header only, expected at least one request"},
        {"prompt_tokens,output_tokens\n1,2\n\n3\n", "f.csv:4: expected 2 columns, found 1"},
        {"prompt_tokens,output_tokens\n1,2,3\n", "f.csv:2: expected 2 columns, found 3"},
        {"prompt_tokens,output_tokens\n0,2\n",
         "f.csv:2: column prompt_tokens: expected a whole number from 1 to 10000000, found \"0\""},
        {"prompt_tokens,output_tokens\n5,-2\n",
         "f.csv:2: column output_tokens: expected a whole number from 1 to 10000000, found "
         "\"-2\""},
        {"prompt_tokens,output_tokens\n5,2.5\n",
         "f.csv:2: column output_tokens: expected a whole number from 1 to 10000000, found "
         "\"2.5\""},
        {"prompt_tokens,output_tokens\n 5,2\n",
         "f.csv:2: column prompt_tokens: expected a whole number from 1 to 10000000, found "
         "\" 5\""},
        {"prompt_tokens,output_tokens\n99999999999999999999,2\n",
         "f.csv:2: column prompt_tokens: expected a whole number from 1 to 10000000, found "
         "\"99999999999999999999\""},
        {"arrival_s,prompt_tokens,output_tokens\nsoon,1,1\n",
         "f.csv:2: column arrival_s: expected seconds from 0 to 1e9, found \"soon\""},
        {"arrival_s,prompt_tokens,output_tokens\nnan,1,1\n",
         "f.csv:2: column arrival_s: expected seconds from 0 to 1e9, found \"nan\""},
        {"arrival_s,prompt_tokens,output_tokens\n-1,1,1\n",
         "f.csv:2: column arrival_s: expected seconds from 0 to 1e9, found \"-1\""},
        {"arrival_s,prompt_tokens,output_tokens\n2,1,1\n1,1,1\n",
         "f.csv:3: column arrival_s: expected an arrival not before that of the row above, found "
         "\"1\""},
        {"TIMESTAMP,ContextTokens,GeneratedTokens\n12:00,1,1\n",
         "f.csv:2: column TIMESTAMP: expected a time like 2023-11-16 18:15:46.680590, found "
         "\"12:00\""},
    };
    for (const Malformed& c : cases) {
        const auto trace = parse_trace(c.text, "f.csv");
        ASSERT_FALSE(trace.ok()) << c.text;
        EXPECT_EQ(trace.error().message, c.message);
        EXPECT_EQ(trace.error().code, base::Errc::invalid);
    }
}

TEST(TraceFile, ImpossibleTimesAreRefused) {
    for (const char* time :
         {"", "2023", "2023-13-01 00:00:00", "2023-02-29 00:00:00", "2023-01-01 24:00:00",
          "2023-01-01 00:60:00", "2023-01-01 00:00:61", "2023-01-01 00:00:00.",
          "2023-01-01 00:00:00 ", "2023-01-01 00:00:00+1", "2023-01-01 00:00:00+99:00",
          "2023-01-01 00:00:-1", "1023-01-01 00:00:00", "2023/01/01 00:00:00",
          "2023-01-01 00:00:00.12x"}) {
        const auto trace = parse_trace(
            std::string("TIMESTAMP,ContextTokens,GeneratedTokens\n") + time + ",1,1\n", "f.csv");
        ASSERT_FALSE(trace.ok()) << time;
        EXPECT_EQ(trace.error().message,
                  std::string("f.csv:2: column TIMESTAMP: expected a time like 2023-11-16 "
                              "18:15:46.680590, found \"") +
                      time + "\"");
    }
}

TEST(TraceFile, MalformedCountsAreRefusedWithFileLineAndExpectation) {
    const Malformed cases[] = {
        {"", "c.csv: is empty, expected a header line"},
        {"interval_index,n\n0,1\n",
         "c.csv:1: expected a header with the columns interval_index,requests_in_3s, found "
         "\"interval_index,n\""},
        {"interval_index,requests_in_3s\n0,1\n2,1\n",
         "c.csv:3: column interval_index: expected 1, found \"2\""},
        {"interval_index,requests_in_3s\n0,1.5\n",
         "c.csv:2: column requests_in_3s: expected a whole number from 0 to 1000000000, found "
         "\"1.5\""},
        {"interval_index,requests_in_3s\n0\n", "c.csv:2: expected 2 columns, found 1"},
        {"interval_index,requests_in_3s\n0,0\n",
         "c.csv: expected at least one request in requests_in_3s"},
    };
    for (const Malformed& c : cases) {
        const auto counts = parse_interval_counts(c.text, "c.csv");
        ASSERT_FALSE(counts.ok()) << c.text;
        EXPECT_EQ(counts.error().message, c.message);
    }
}

TEST(TraceFile, AMissingFileIsNamed) {
    const auto trace = read_trace("/no/such/trace.csv");
    ASSERT_FALSE(trace.ok());
    EXPECT_EQ(trace.error().code, base::Errc::not_found);
    EXPECT_NE(trace.error().message.find("/no/such/trace.csv"), std::string::npos);
}

TEST(TraceFile, ReadsThePublishedLengthsAndCounts) {
    const std::string folder = kPaperData + "/traces";
    const auto trace = read_trace(folder + "/azure_conv_lengths.csv");
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_EQ(trace->requests.size(), 16657U);
    double prompt = 0;
    for (const TraceRequest& r : trace->requests) prompt += r.prompt_tokens;
    EXPECT_NEAR(prompt / 16657, 763.0784655, 1e-6);
    const auto counts = read_interval_counts(folder + "/azure_conv_arrivals_per_3s.csv");
    ASSERT_TRUE(counts.ok()) << counts.error().message;
    EXPECT_EQ(counts->size(), 1200U);
}

}  // namespace
}  // namespace helix::sim::trace_file_test
