#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace tideline {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  bool finished = false;
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  TL_CHECK(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr),
           "libcrypto always offers SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  TL_CHECK(!state_->finished, "Update after Digest");
  TL_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()), "hashing cannot fail");
}

std::array<uint8_t, 32> Sha256::Digest() {
  TL_CHECK(!state_->finished, "Digest twice");
  state_->finished = true;
  std::array<uint8_t, 32> digest{};
  unsigned int size = 0;
  TL_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) && size == digest.size(),
           "hashing cannot fail");
  return digest;
}

std::string Sha256::HexDigest() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : Digest()) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.HexDigest();
}

}  // namespace tideline
