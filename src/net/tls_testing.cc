#include "net/tls_testing.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>

#include "base/check.h"

namespace divvy::net {
namespace {

void write_pem(const std::filesystem::path& path, const auto& write) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  DIVVY_CHECK(file != nullptr);
  DIVVY_CHECK(write(file) == 1);
  DIVVY_CHECK(std::fclose(file) == 0);
  DIVVY_CHECK(::chmod(path.c_str(), 0600) == 0);
}

}  // namespace

TlsIdentity make_test_identity(const std::filesystem::path& folder, const std::string& name,
                               const std::string& host) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  DIVVY_CHECK(key != nullptr && certificate != nullptr);
  X509* x509 = certificate.get();
  X509_set_version(x509, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x509), 24L * 3600);
  X509_set_pubkey(x509, key.get());
  X509_NAME* subject = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x509, subject);
  const std::string names = "DNS:" + host + ",IP:127.0.0.1";
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
  DIVVY_CHECK(extension != nullptr && X509_add_ext(x509, extension, -1) == 1);
  X509_EXTENSION_free(extension);
  DIVVY_CHECK(X509_sign(x509, key.get(), EVP_sha256()) > 0);

  TlsIdentity identity{folder / (name + ".pem"), folder / (name + ".key")};
  write_pem(identity.certificate, [&](std::FILE* file) { return PEM_write_X509(file, x509); });
  write_pem(identity.key, [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return identity;
}

}  // namespace divvy::net
