use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::downstream_tls_context::SessionTicketKeysType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, TlsParameters,
};
use envoy_types::util::pack_any;
use portcullis_api::{DownstreamTls, TlsVersion};

use super::handshake::HandshakeValidation;
use crate::proto::{boolean, sds};

/// TLS that asks for a client certificate. The filter verifies it again, request by request.
pub(super) fn with_client_certificate(
    certificates: Vec<String>,
    validation: HandshakeValidation,
    tls: &DownstreamTls,
) -> TransportSocket {
    let by_secret = ValidationContextType::ValidationContextSdsSecretConfig(sds(validation.secret));
    socket(certificates, Some(by_secret), validation.is_required, tls)
}

/// TLS that asks for no client certificate.
pub(super) fn plain(certificates: Vec<String>, tls: &DownstreamTls) -> TransportSocket {
    socket(certificates, None, false, tls)
}

fn socket(
    certificates: Vec<String>,
    validation: Option<ValidationContextType>,
    is_required: bool,
    tls: &DownstreamTls,
) -> TransportSocket {
    let minimum = match tls.minimum_version {
        TlsVersion::Tls12 => TlsProtocol::TlSv12,
        TlsVersion::Tls13 => TlsProtocol::TlSv13,
    };
    let context = DownstreamTlsContext {
        require_client_certificate: Some(boolean(is_required)),
        // A resumed session would skip the validator, and a ticket could be taken to another cluster.
        disable_stateful_session_resumption: true,
        session_ticket_keys_type: Some(SessionTicketKeysType::DisableStatelessSessionResumption(true)),
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: minimum.into(),
                tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
                cipher_suites: tls.cipher_suites.clone(),
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
