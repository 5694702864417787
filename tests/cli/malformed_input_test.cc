// What the commands say of files that are not what they should be: they name the file, the place in
// it, and what was expected.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "cli/command.h"

namespace helix::cli::malformed_input_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClusterJson = R"({"schema": "helix-cluster-1",
 "nodes": [{"id": 0, "type": "T4"}, {"id": 1, "type": "T4"}],
 "coordinator_links": [
  {"node": 0, "direction": "coordinator_to_node", "bandwidth_bytes_per_s": 1e9, "latency_ms": 1},
  {"node": 1, "direction": "node_to_coordinator", "bandwidth_bytes_per_s": 1e9, "latency_ms": 1}],
 "node_links": [{"a": 0, "b": 1, "bandwidth_bytes_per_s": 1e9, "latency_ms": 1}]}
)";
constexpr const char* kClusterToml = R"(name = "two"
[[machines]]
name = "a"
type = "T4"
[[machines]]
name = "b"
type = "T4"
[links]
default = {bandwidth = "1 Gbit/s", latency = "1 ms"}
)";
constexpr const char* kPlacement = R"({"schema": "helix-layout-1", "num_layers": 4,
 "layers": {"0": [0, 2], "1": [2, 4]},
 "links": [["source", 0], [0, 1], [1, "sink"]]}
)";
constexpr const char* kModels = R"({"m": {"num_layers": 4, "layer_param_bytes": 1e8,
 "token_bytes": 2, "activation_bytes_per_token": 1000}}
)";
constexpr const char* kLimits =
    "machine_type,num_layers,max_num_layers_of_type,kv_tokens_per_layer,prompt_max_tokens,"
    "decode_max_tokens\n"
    "T4,1,2,90000,1024,64\n"
    "T4,2,2,80000,1024,64\n";
constexpr const char* kCurve = "batch_tokens,one_layer_time_ms\n0,0\n100,2\n";

enum class Load { lengths, trace, azure, counts };

struct Case {
    const char* file;
    const char* good;  // this in the file becomes
    const char* bad;   // this
    const char* said;
    Load load = Load::lengths;
};

const std::vector<Case> kClusterJsonCases = {
    {"cluster.json", "", "",
     "cluster.json:1: is not JSON: syntax error while parsing value - unexpected end of input; "
     "expected '[', '{', or a literal"},
    {"cluster.json", "", "[1, 2]", "cluster.json: expected an object, found [1,2]"},
    {"cluster.json", "\"T4\"},", "\"T4\"",
     "cluster.json:2: is not JSON: syntax error while parsing object - unexpected '{'; expected "
     "'}'"},
    {"cluster.json", "helix-cluster-1", "helix-cluster-9",
     "cluster.json: schema: expected \"helix-cluster-1\", found \"helix-cluster-9\""},
    {"cluster.json", "\"nodes\": [", "\"knots\": [", "cluster.json: has no \"nodes\""},
    {"cluster.json", "\"id\": 1", "\"id\": 7",
     "cluster.json: nodes[1].id: expected 1 (ids count from 0 in file order), found 7"},
    {"cluster.json", "\"type\": \"T4\"", "\"type\": 4",
     "cluster.json: nodes[0].type: expected a string, found 4"},
    {"cluster.json", "\"type\": \"T4\"", "\"type\": \"T5000\"",
     "cluster.json: nodes[0]: memory is not given, and machine type \"T5000\" is not in the "
     "catalogue; `helix machines` lists them"},
    {"cluster.json", "\"type\": \"T4\"", "\"type\": \"T4\", \"memory_bytes\": -5",
     "cluster.json: nodes[0]: memory must be above 0 and below 9e15 bytes"},
    {"cluster.json", "\"type\": \"T4\"", "\"type\": \"A100\"",
     "cluster.json: node node0: there are no measured tables for type \"A100\" with m; known: T4"},
    {"cluster.json", "\"b\": 1, \"bandwidth_bytes_per_s\": 1e9",
     "\"b\": 1, \"bandwidth_bytes_per_s\": \"fast\"",
     "cluster.json: node_links[0].bandwidth_bytes_per_s: expected a number, found \"fast\""},
    {"cluster.json", "\"latency_ms\": 1}]}", "\"latency_ms\": -1}]}",
     "cluster.json: node_links[0].latency_ms: expected a number not below 0, found -1"},
    {"cluster.json", "\"b\": 1", "\"b\": 9",
     "cluster.json: node_links[0].b: expected a number from 0 to 1, found 9"},
    {"cluster.json", "coordinator_to_node", "outwards",
     "cluster.json: coordinator_links[0].direction: expected \"coordinator_to_node\" or "
     "\"node_to_coordinator\", found \"outwards\""},
};

const std::vector<Case> kClusterTomlCases = {
    {"cluster.toml", "[links]", "[links",
     "cluster.toml:8: is not TOML: Error while parsing table header: expected ']', saw '\\n'"},
    {"cluster.toml", "name = \"b\"", "name = \"a\"",
     "cluster.toml: node \"a\": the name appears twice"},
    {"cluster.toml", "name = \"b\"", "nmae = \"b\"",
     "cluster.toml:6: \"nmae\" is not a key of a machine; known are: name, type, count, region, "
     "host, device, core_share, role, memory, nic, nic_in, nic_out, decode_per_layer, "
     "decode_batch8_per_layer, "
     "prefill_per_token_layer"},
    {"cluster.toml", "1 Gbit/s", "1 Gbit",
     "cluster.toml:9: bandwidth: \"1 Gbit\" is not a bandwidth (unknown unit \"Gbit\"); expected a "
     "form like \"10 Gbit/s\""},
    {"cluster.toml", "1 ms", "fast",
     "cluster.toml:9: latency: \"fast\" is not a duration (no number); expected a form like \"50 "
     "ms\""},
    {"cluster.toml", "type = \"T4\"", "type = \"Z1\"",
     "cluster.toml:2: machine a: expected memory, here or in [types.Z1]; machine type \"Z1\" is "
     "not in the catalogue; `helix machines` lists them"},
    {"cluster.toml", "type = \"T4\"", "type = \"T4\"\ncount = \"two\"",
     "cluster.toml:5: count: expected a whole number from 1 to 100000"},
};

const std::vector<Case> kPlacementCases = {
    {"plan.json", "", "{",
     "plan.json:1: is not JSON: syntax error while parsing object key - unexpected end of input; "
     "expected string literal"},
    {"plan.json", "helix-layout-1", "layout",
     "plan.json: schema: expected \"helix-layout-1\", found \"layout\""},
    {"plan.json", "\"num_layers\": 4", "\"num_layers\": 5",
     "plan.json: is for 5 layers, but m has 4"},
    {"plan.json", "\"1\": [2, 4]", "\"1\": [2, 9]",
     "plan.json: layers.1: expected null or [start, end) with 0 <= start < end <= 4, found [2,9]"},
    {"plan.json", "\"1\": [2, 4]", "\"one\": [2, 4]",
     "plan.json: layers: expected node ids (numbers from 0) as keys, found \"one\""},
    {"plan.json", "\"1\": [2, 4]", "\"5\": [2, 4]",
     "plan.json: names node 5, but the cluster has nodes 0 to 1"},
    {"plan.json", "\"1\": [2, 4]", "\"1\": [3, 4]",
     "plan.json: no way leads through all layers in order and back to the coordinator"},
    {"plan.json", "\"0\": [0, 2]", "\"0\": [0, 3]",
     "plan.json: placement: node node0 has the 3 layers [0, 3), but can hold at most 2 there"},
    {"plan.json", "[1, \"sink\"]", "[1, \"source\"]",
     "plan.json: links[2][1]: expected a node id or \"sink\", found \"source\""},
    {"plan.json", "[0, 1]", "[0, 1, 2]", "plan.json: links[1]: expected [from, to], found [0,1,2]"},
    {"plan.json", ", [1, \"sink\"]", "",
     "plan.json: no way leads through all layers in order and back to the coordinator"},
};

const std::vector<Case> kTableCases = {
    {"models.json", "\"m\":", "\"n\":", "models.json: has no \"m\""},
    {"models.json", "\"num_layers\": 4", "\"num_layers\": 0",
     "models.json: m.num_layers: expected a whole number above 0, found 0"},
    {"models.json", "\"token_bytes\": 2", "\"token_bytes\": \"2\"",
     "models.json: m.token_bytes: expected a number, found \"2\""},
    {"m_limits.csv", "decode_max_tokens", "decodes",
     "m_limits.csv:1: the header has no column \"decode_max_tokens\""},
    {"m_limits.csv", "T4,2,2", "T4,3,2",
     "m_limits.csv:3: T4: expected the row for 2 layers, found 3"},
    {"m_limits.csv", "T4,2,2,80000,1024,64\n", "",
     "m_limits.csv: T4: may hold 2 layers, but the rows end at 1"},
    {"m_limits.csv", "80000", "many",
     "m_limits.csv:3: column kv_tokens_per_layer: expected a number not below 0, found \"many\""},
    {"m_T4_decode_time.csv", "100,2", "100,-2",
     "m_T4_decode_time.csv:3: column one_layer_time_ms: expected a number not below 0, found "
     "\"-2\""},
    {"m_T4_decode_time.csv", "100,2", "0,2",
     "m_T4_decode_time.csv:3: batch_tokens must rise, but 0 follows 0"},
    {"m_T4_prompt_time.csv", "100,2\n", "",
     "m_T4_prompt_time.csv: expected at least two measured points"},
    {"m_T4_prompt_time.csv", "100,2", "100", "m_T4_prompt_time.csv:3: expected 2 columns, found 1"},
};

const std::vector<Case> kLoadCases = {
    {"lengths.csv", "10,5", "10,0",
     "lengths.csv:2: column output_tokens: expected a whole number from 1 to 10000000, found "
     "\"0\""},
    {"lengths.csv", "10,5", "10", "lengths.csv:2: expected 2 columns, found 1"},
    {"lengths.csv", "10,5\n", "", "lengths.csv: has a header only, expected at least one request"},
    {"lengths.csv", "prompt_tokens", "prompt",
     "lengths.csv:1: expected a header with the columns arrival_s,prompt_tokens,output_tokens or "
     "TIMESTAMP,ContextTokens,GeneratedTokens or prompt_tokens,output_tokens, found "
     "\"prompt,output_tokens\""},
    {"trace.csv", "\n1,10", "\n-1,10",
     "trace.csv:3: column arrival_s: expected seconds from 0 to 1e9, found \"-1\"", Load::trace},
    {"trace.csv", "0,10,5\n1,", "2,10,5\n1,",
     "trace.csv:3: column arrival_s: expected an arrival not before that of the row above, found "
     "\"1\"",
     Load::trace},
    {"trace.csv", "arrival_s,", "", "trace.csv:2: expected 2 columns, found 3", Load::trace},
    {"trace.csv", "\n1,10,5", "",
     "trace.csv: all requests arrive at once; expected times of arrival", Load::trace},
    {"azure.csv", "18:15:47.5", "25:15:47.5",
     "azure.csv:3: column TIMESTAMP: expected a time like 2023-11-16 18:15:46.680590, found "
     "\"2023-11-16 25:15:47.5\"",
     Load::azure},
    {"azure.csv", "18:15:47.5", "18:15:40",
     "azure.csv:3: column TIMESTAMP: expected an arrival not before that of the row above, found "
     "\"2023-11-16 18:15:40\"",
     Load::azure},
    {"azure.csv", "2023-11-16 18:15:47.5,10", "2023-11-16 18:15:47.5,ten",
     "azure.csv:3: column ContextTokens: expected a whole number from 1 to 10000000, found \"ten\"",
     Load::azure},
    {"counts.csv", "requests_in_3s", "requests",
     "counts.csv:1: the header has no column \"requests_in_3s\"", Load::counts},
    {"counts.csv", "\n0\n", "\nnone\n",
     "counts.csv:3: column requests_in_3s: expected a number not below 0, found \"none\"",
     Load::counts},
    {"counts.csv", "2\n0\n1\n", "0\n", "counts.csv: expected some requests in requests_in_3s",
     Load::counts},
};

std::string replaced(std::string text, const Case& one) {
    const std::string good = one.good;
    if (good.empty()) return one.bad;  // the whole file
    const std::size_t at = text.find(good);
    EXPECT_NE(at, std::string::npos) << good;
    return text.replace(at, good.size(), one.bad);
}

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A good problem in files, one of which is then made bad.
class MalformedInput : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::path(testing::TempDir()) / ("helix_malformed_" + std::to_string(::getpid()));
        fs::create_directories(folder_);
        write("cluster.json", kClusterJson);
        write("cluster.toml", kClusterToml);
        write("plan.json", kPlacement);
        write("models.json", kModels);
        write("m_limits.csv", kLimits);
        write("m_T4_prompt_time.csv", kCurve);
        write("m_T4_decode_time.csv", kCurve);
        write("lengths.csv", "prompt_tokens,output_tokens\n10,5\n");
        write("trace.csv", "arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,10,5\n");
        write("azure.csv",
              "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,10,5\n"
              "2023-11-16 18:15:47.5,10,5\n");
        write("counts.csv", "requests_in_3s\n2\n0\n1\n");
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
    }

    // What `helix simulate` says on standard error; "" when all is well.
    std::string complaint(Load load, const std::string& cluster) const {
        std::vector<std::string> words = {
            "helix",          "simulate",    path(cluster),     "--model",  "m", "--profiles",
            folder_.string(), "--placement", path("plan.json"), "--warmup", "0s"};
        const auto add = [&](std::initializer_list<std::string> more) {
            words.insert(words.end(), more.begin(), more.end());
        };
        if (load == Load::trace) add({"--trace", path("trace.csv")});
        if (load == Load::azure) add({"--trace", path("azure.csv")});
        if (load == Load::lengths) add({"--lengths", path("lengths.csv"), "--duration", "2s"});
        if (load == Load::counts) {
            add({"--online", "--rate", "50", "--arrival-counts", path("counts.csv")});
        }
        std::vector<const char*> argv;
        for (const std::string& word : words) argv.push_back(word.c_str());
        testing::internal::CaptureStderr();
        testing::internal::CaptureStdout();
        const int code = run(static_cast<int>(argv.size()), argv.data());
        testing::internal::GetCapturedStdout();
        std::string said = testing::internal::GetCapturedStderr();
        if (code == 0) return "";
        const std::string folder = folder_.string() + "/";
        for (std::size_t at = said.find(folder); at != std::string::npos; at = said.find(folder)) {
            said.erase(at, folder.size());
        }
        return said;
    }

    void check(const std::vector<Case>& cases) const {
        for (const Case& one : cases) {
            const std::string kept = read(path(one.file));
            write(one.file, replaced(kept, one));
            const bool toml = std::string(one.file) == "cluster.toml";
            EXPECT_EQ(complaint(one.load, toml ? "cluster.toml" : "cluster.json"),
                      std::string("helix: ") + one.said + "\n")
                << one.file << ": " << one.good << " -> " << one.bad;
            write(one.file, kept);
        }
    }

    fs::path folder_;
};

TEST_F(MalformedInput, GoodFilesAreTaken) {
    EXPECT_EQ(complaint(Load::lengths, "cluster.toml"), "");
    for (const Load load : {Load::lengths, Load::trace, Load::azure, Load::counts}) {
        EXPECT_EQ(complaint(load, "cluster.json"), "");
    }
}

TEST_F(MalformedInput, ClusterFilesInJsonSayWhereTheyAreWrongAndWhatWasExpected) {
    check(kClusterJsonCases);
}

TEST_F(MalformedInput, ClusterFilesInTomlSayWhereTheyAreWrongAndWhatWasExpected) {
    check(kClusterTomlCases);
}

TEST_F(MalformedInput, PlacementsSayWhereTheyAreWrongAndWhatWasExpected) {
    check(kPlacementCases);
}

TEST_F(MalformedInput, MeasuredTablesSayWhereTheyAreWrongAndWhatWasExpected) {
    check(kTableCases);
}

TEST_F(MalformedInput, LengthsTracesAndCountsSayWhereTheyAreWrongAndWhatWasExpected) {
    check(kLoadCases);
}

}  // namespace
}  // namespace helix::cli::malformed_input_test
