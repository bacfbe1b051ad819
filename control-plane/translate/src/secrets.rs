use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, GenericSecret, Secret, TlsCertificate, secret,
};
use portcullis_api::{ClientCaNames, ClientVerification, Cluster, KeyPair, PublicBytes, Settings, Trust};
use prost::Message;

use crate::names::{ResourceNames, parts};
use crate::proto::inline_bytes;
use crate::resource::{Resource, type_urls};

/// The secrets of a cluster. All keys and tokens travel so; CAs do too, so that their rotation changes no cluster.
pub(crate) fn emit_secrets(
    cluster: &Cluster,
    names: &ResourceNames,
    settings: &Settings,
    resources: &mut Vec<Resource>,
) {
    if let Some(pair) = &cluster.serving {
        resources.push(secret(names.part(parts::SERVING), certificate(pair)));
    }
    emit_credentials(cluster, names, settings, resources);
}

/// The secrets of a cluster without its serving certificate: the gateway's credential at the servers, and both CAs.
pub(crate) fn emit_credentials(
    cluster: &Cluster,
    names: &ResourceNames,
    settings: &Settings,
    resources: &mut Vec<Resource>,
) {
    if let Some(pair) = &cluster.certificate {
        resources.push(secret(names.upstream(parts::CLIENT), certificate(pair)));
    }
    if let Some(token) = &cluster.token {
        let generic = GenericSecret { secret: Some(inline_bytes(token.expose())), ..Default::default() };
        resources.push(secret(names.upstream(parts::TOKEN), secret::Type::GenericSecret(generic)));
    }
    let validation = client_validation(cluster, settings.client_ca_names);
    resources.push(secret(names.part(parts::CLIENT_VALIDATION), secret::Type::ValidationContext(validation)));
    if let Trust::Bundle(pem) = &cluster.trust {
        resources.push(secret(names.upstream(parts::UPSTREAM_CA), authorities(pem)));
    }
}

/// The handling of client certificates in the handshake, as a secret, so that a change of the client CA ends no connection.
///
/// `trusted_ca` gives the names of acceptable authorities in the handshake (RFC 8446 4.2.4): Envoy takes them from there for
/// its own validator only. `ACCEPT_UNTRUSTED` then lets certificates of others in, and leaves them to the filter, as
/// kube-apiserver's handshake does. The price: with `trusted_ca` BoringSSL decodes all extensions of the presented certificates
/// before it looks at a signature, and keeps them with the connection.
fn client_validation(cluster: &Cluster, names: ClientCaNames) -> CertificateValidationContext {
    let own = |trust_chain_verification: TrustChainVerification| CertificateValidationContext {
        trusted_ca: cluster.client_ca.as_ref().map(|pem| inline_bytes(pem.as_slice())),
        trust_chain_verification: trust_chain_verification.into(),
        ..Default::default()
    };
    match cluster.client_verification {
        ClientVerification::Request if names == ClientCaNames::Omitted => CertificateValidationContext {
            trust_chain_verification: TrustChainVerification::AcceptUntrusted.into(),
            ..Default::default()
        },
        ClientVerification::Request => own(TrustChainVerification::AcceptUntrusted),
        // Without a CA Envoy's own validator verifies nothing; the filter then believes no certificate.
        ClientVerification::Handshake => own(TrustChainVerification::VerifyTrustChain),
    }
}

/// The CAs by which a Gateway's listener has every certificate of a client verified in the handshake.
pub(crate) fn listener_validation(name: String, bundle: &str) -> Resource {
    let context = CertificateValidationContext {
        trusted_ca: Some(inline_bytes(bundle.as_bytes())),
        trust_chain_verification: TrustChainVerification::VerifyTrustChain.into(),
        ..Default::default()
    };
    secret(name, secret::Type::ValidationContext(context))
}

/// A certificate of a Gateway's listener, and its key.
pub(crate) fn listener_certificate(name: String, pair: &KeyPair) -> Resource {
    secret(name, certificate(pair))
}

/// The gateway's own certificate.
pub(crate) fn default_certificate(settings: &Settings) -> Option<Resource> {
    let pair = settings.default_certificate.as_ref()?;
    let name = ResourceNames::gateway(&settings.instance).part(parts::DEFAULT_CERTIFICATE);
    Some(secret(name, certificate(pair)))
}

/// The CAs of the collector of traces.
pub(crate) fn collector_ca(settings: &Settings) -> Option<Resource> {
    let tracing = settings.tracing.as_ref()?;
    let tls = tracing.tls.as_ref()?;
    let name = ResourceNames::collector(&settings.instance, tracing).upstream(parts::COLLECTOR_CA);
    Some(secret(name, authorities(&tls.ca)))
}

fn authorities(pem: &PublicBytes) -> secret::Type {
    let trusted_ca = Some(inline_bytes(pem.as_slice()));
    secret::Type::ValidationContext(CertificateValidationContext { trusted_ca, ..Default::default() })
}

/// Whether a resource's message holds a key or a token. A message that cannot be decoded counts as one.
pub fn holds_key(type_url: &str, body: &[u8]) -> bool {
    let is_public = |secret: Secret| matches!(secret.r#type, Some(secret::Type::ValidationContext(_)));
    type_url == type_urls::secret() && !Secret::decode(body).is_ok_and(is_public)
}

fn certificate(pair: &KeyPair) -> secret::Type {
    secret::Type::TlsCertificate(TlsCertificate {
        certificate_chain: Some(inline_bytes(pair.chain.as_slice())),
        private_key: Some(inline_bytes(pair.key.expose())),
        ..Default::default()
    })
}

fn secret(name: String, kind: secret::Type) -> Resource {
    Resource::new(name.clone(), &Secret { name, r#type: Some(kind) })
}
