#include "net/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace divvy::net {
namespace {

namespace ssl = boost::asio::ssl;

std::shared_ptr<ssl::context> new_context(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Of TLS 1.2 what is still sound; 1.3 has nothing else.
  SSL_CTX_set_cipher_list(native, "ECDHE+AESGCM:ECDHE+CHACHA20");
  return context;
}

Error refused(const std::filesystem::path& file, std::string_view what,
              const boost::system::error_code& code) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{} {}: {}", file.string(), what, code.message())};
}

Status check_key_mode(const std::filesystem::path& key) {
  struct stat status{};
  if (::stat(key.c_str(), &status) != 0 || (status.st_mode & 077U) == 0) return {};
  // Root's, and our own group may read it: so a pod that is not root gets its secrets.
  const bool given_to_us = status.st_uid == 0 && ::geteuid() != 0 && status.st_gid == ::getegid() &&
                           (status.st_mode & 037U) == 0;
  if (given_to_us) return {};
  return err(ErrorCode::kPermissionDenied,
             "{} is a private key that others may read; chmod 600 it, and take a new one if "
             "somebody has",
             key.string());
}

}  // namespace

Result<std::shared_ptr<ssl::context>> server_context(const TlsIdentity& identity) {
  DIVVY_RETURN_IF_ERROR(check_key_mode(identity.key));
  auto context = new_context(ssl::context::tls_server);
  boost::system::error_code code;
  code = context->use_certificate_chain_file(identity.certificate.string(), code);
  if (code) return err(refused(identity.certificate, "is no certificate", code));
  code = context->use_private_key_file(identity.key.string(), ssl::context::pem, code);
  if (code) return err(refused(identity.key, "is no key for this certificate", code));
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return err(ErrorCode::kInvalidArgument, "{} is not the key of the certificate {}",
               identity.key.string(), identity.certificate.string());
  }
  if (!identity.clients.empty()) {
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
    code = context->load_verify_file(identity.clients.string(), code);
    if (code) return err(refused(identity.clients, "has no certificate in it", code));
  }
  return context;
}

namespace {

// Never says what is in the key.
Status show(ssl::context& context, const TlsClientIdentity& client) {
  // OpenSSL would ask on the terminal.
  context.set_password_callback([](std::size_t, ssl::context::password_purpose) { return ""; });
  boost::system::error_code code;
  code = context.use_certificate_chain(boost::asio::buffer(client.certificate), code);
  if (code) {
    return err(ErrorCode::kInvalidArgument, "the client certificate is none: {}", code.message());
  }
  code = context.use_private_key(boost::asio::buffer(client.key), ssl::context::pem, code);
  if (code || SSL_CTX_check_private_key(context.native_handle()) != 1) {
    return err(ErrorCode::kInvalidArgument,
               "the client key is no key for the client certificate, or it has a password");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<ssl::context>> client_context(const TlsTrust& trust) {
  auto context = new_context(ssl::context::tls_client);
  context->set_verify_mode(ssl::verify_peer);
  boost::system::error_code code;
  if (!trust.authorities_pem.empty()) {
    code = context->add_certificate_authority(boost::asio::buffer(trust.authorities_pem), code);
    if (code) return err(refused("the authority", "is no certificate", code));
  } else if (trust.authorities.empty()) {
    code = context->set_default_verify_paths(code);
    if (code) return err(refused("the machine", "has no certificate authorities", code));
  } else {
    code = context->load_verify_file(trust.authorities.string(), code);
    if (code) return err(refused(trust.authorities, "has no certificate in it", code));
  }
  if (trust.client) DIVVY_RETURN_IF_ERROR(show(*context, *trust.client));
  return context;
}

}  // namespace divvy::net
