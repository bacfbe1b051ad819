use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::downstream_tls_context::SessionTicketKeysType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, TlsParameters,
};
use envoy_types::util::pack_any;
use portcullis_api::{ClientCaNames, ClientVerification, Cluster};

use crate::proto::{boolean, inline_bytes, sds};

/// TLS that asks for a client certificate and judges it by the secret `validation`. The filter verifies it again, request by
/// request.
pub(super) fn with_client_certificate(certificates: Vec<String>, validation: String) -> TransportSocket {
    socket(certificates, Some(ValidationContextType::ValidationContextSdsSecretConfig(sds(validation))))
}

/// The handling of client certificates in the handshake, as a secret, so that a change of the client CA ends no connection.
///
/// `trusted_ca` gives the names of acceptable authorities in the handshake (RFC 8446 4.2.4): Envoy takes them from there for
/// its own validator only. `ACCEPT_UNTRUSTED` then lets certificates of others in, and leaves them to the filter, as
/// kube-apiserver's handshake does. The price: with `trusted_ca` BoringSSL decodes all extensions of the presented certificates
/// before it looks at a signature, and keeps them with the connection.
pub(crate) fn client_validation(cluster: &Cluster, names: ClientCaNames) -> CertificateValidationContext {
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

/// TLS that asks for no client certificate.
pub(super) fn plain(certificate: String) -> TransportSocket {
    socket(vec![certificate], None)
}

fn socket(certificates: Vec<String>, validation: Option<ValidationContextType>) -> TransportSocket {
    let context = DownstreamTlsContext {
        require_client_certificate: Some(boolean(false)),
        // A resumed session would skip the validator, and a ticket could be taken to another cluster.
        disable_stateful_session_resumption: true,
        session_ticket_keys_type: Some(SessionTicketKeysType::DisableStatelessSessionResumption(true)),
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
                tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
                ..Default::default()
            }),
            alpn_protocols: vec!["h2".to_owned(), "http/1.1".to_owned()],
            tls_certificate_sds_secret_configs: certificates.into_iter().map(sds).collect(),
            validation_context_type: validation,
            ..Default::default()
        }),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack_any(context))),
    }
}
