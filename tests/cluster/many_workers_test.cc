// The paper's 42 machines as 42 processes on this one.

#include <gtest/gtest.h>

#include <memory>

#include "cluster/process.h"
#include "paper_data.h"

namespace helix::cluster::many_workers_test {
namespace {

const std::string kProfiles = kPaperData + "/profiles";
const std::string kVocabulary = HELIX_DATA_DIR "/models/stories260K.gguf";

// The high-heterogeneity cluster of the paper, 42 nodes of seven kinds.
const std::vector<std::pair<std::string, int>> kMachines = {
    {"A100", 4}, {"V100", 6}, {"L4", 8}, {"T4", 10}, {"L4x2", 4}, {"T4x2", 6}, {"T4x4", 4}};

TEST(ManyWorkersSlow, FortyTwoModelledWorkersStartAndServe) {
    if (!std::filesystem::exists(kVocabulary)) GTEST_SKIP() << "no " << kVocabulary;
    const Folder folder;
    const int port = free_port();
    const std::vector<std::string> modelled{"--backend", "modelled",   "--profiles",   kProfiles,
                                            "--profile", "llama2-70b", "--time-scale", "0.02"};
    std::vector<std::string> arguments{"serve",
                                       "--model",
                                       kVocabulary,
                                       "--listen",
                                       "127.0.0.1:" + std::to_string(port),
                                       "--no-worker",
                                       "--min-workers",
                                       "42",
                                       "--type",
                                       "A100"};
    arguments.insert(arguments.end(), modelled.begin(), modelled.end());
    const Process coordinator(arguments, folder.file("serve.log"));
    std::vector<std::unique_ptr<Process>> workers;
    for (const auto& [type, number] : kMachines) {
        for (int i = 0; i < number; ++i) {
            const std::string name = type + "-" + std::to_string(i);
            arguments = {"worker",   "--join", "127.0.0.1:" + std::to_string(port),
                         "--name",   name,     "--host-id",
                         name,       "--type", type,
                         "--memory", "40GB"};
            arguments.insert(arguments.end(), modelled.begin(), modelled.end());
            workers.push_back(std::make_unique<Process>(arguments, folder.file(name + ".log")));
        }
    }
    ASSERT_EQ(workers.size(), 42U);
    const std::string body =
        R"({"model": "default", "prompt": "Once upon a time", "max_tokens": 20, "ignore_eos": true})";
    ASSERT_TRUE(eventually(
        [&] { return http(port, "POST", "/v1/completions", body).starts_with("HTTP/1.1 200"); },
        120))
        << coordinator.log();
    std::vector<std::thread> clients;
    std::vector<std::string> replies(32);
    for (std::string& reply : replies) {
        clients.emplace_back([&] { reply = http(port, "POST", "/v1/completions", body); });
    }
    for (std::thread& client : clients) client.join();
    for (const std::string& reply : replies) {
        EXPECT_TRUE(reply.starts_with("HTTP/1.1 200")) << reply;
        EXPECT_NE(reply.find("\"completion_tokens\":20"), std::string::npos) << reply;
    }
    double cpu_s = 0;
    for (const auto& worker : workers) {
        EXPECT_LT(worker->own_resident_bytes(), 24 << 20);
        cpu_s -= worker->cpu_seconds();
    }
    constexpr double kIdle_s = 5;
    std::this_thread::sleep_for(std::chrono::duration<double>(kIdle_s));
    for (const auto& worker : workers) cpu_s += worker->cpu_seconds();
    // On two slow shared cores it is 0.5 to 0.7; a loop that spins takes all cores there are.
    EXPECT_LT(cpu_s / kIdle_s, 1.2) << "cores used by 42 idle workers";
    for (const auto& worker : workers) EXPECT_TRUE(worker->running());
}

}  // namespace
}  // namespace helix::cluster::many_workers_test
