#include "api/completion/completion_sink.h"

#include <string>
#include <utility>
#include <vector>

#include "api/completion/completion.h"

namespace helix::api {
namespace {

using core::FinishReason;

class PostingSink : public TokenSink {
  public:
    PostingSink(std::shared_ptr<Completion> completion, std::size_t prompt,
                std::function<void(net::HttpServer::Task)> post)
        : completion_(std::move(completion)), prompt_(prompt), post_(std::move(post)) {}

    void on_accepted() override {
        post_([c = completion_, p = prompt_] { c->accepted(p); });
    }
    void on_token(std::int32_t choice, const core::ProducedToken& token) override {
        post_([c = completion_, p = prompt_, choice, token] { c->token(p, choice, token); });
    }
    void on_scored(const std::vector<core::ProducedToken>& tokens) override {
        post_([c = completion_, p = prompt_, tokens] { c->scored(p, tokens); });
    }
    void on_choice_finish(std::int32_t choice, FinishReason reason) override {
        post_([c = completion_, p = prompt_, choice, reason] {
            c->choice_finished(p, choice, reason);
        });
    }
    void on_finish(FinishReason reason, const std::string& error) override {
        post_([c = completion_, p = prompt_, reason, error] { c->finished(p, reason, error); });
    }
    void on_reject(const core::RejectRequest& rejection) override {
        post_([c = completion_, p = prompt_, rejection] { c->rejected(p, rejection); });
    }
    void on_routed(const core::RequestRouted& routed) override {
        post_([c = completion_, p = prompt_, routed] { c->routed(p, routed); });
    }

  private:
    std::shared_ptr<Completion> completion_;
    std::size_t prompt_;
    std::function<void(net::HttpServer::Task)> post_;
};

}  // namespace

std::shared_ptr<TokenSink> completion_sink(std::shared_ptr<Completion> completion,
                                           std::size_t prompt,
                                           std::function<void(net::HttpServer::Task)> post) {
    return std::make_shared<PostingSink>(std::move(completion), prompt, std::move(post));
}

}  // namespace helix::api
