use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::cert_validator::dynamic_modules::v3::DynamicModuleCertValidatorConfig;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::downstream_tls_context::SessionTicketKeysType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, TlsParameters,
};
use envoy_types::util::pack_any;
use portcullis_filter_config::{PeerSource, ValidatorConfig, names};

use crate::proto::{boolean, extension, json_any, module, sds};

/// TLS that asks for a client certificate and takes any: the filter verifies it, request by request.
pub(super) fn with_client_certificate(certificate: String, source: PeerSource) -> TransportSocket {
    let context = match source {
        PeerSource::Validator => client_validation(&ValidatorConfig::default()),
        PeerSource::ForwardedClientCert => CertificateValidationContext {
            trust_chain_verification: TrustChainVerification::AcceptUntrusted.into(),
            ..Default::default()
        },
    };
    socket(certificate, Some(ValidationContextType::ValidationContext(context)))
}

/// TLS that asks for a client certificate and takes only what the secret `validation` verifies. The filter verifies it
/// again, request by request.
pub(super) fn with_verified_certificate(certificate: String, validation: String) -> TransportSocket {
    socket(certificate, Some(ValidationContextType::ValidationContextSdsSecretConfig(sds(validation))))
}

/// How our validator judges client certificates.
pub(crate) fn client_validation(config: &ValidatorConfig) -> CertificateValidationContext {
    let validator = DynamicModuleCertValidatorConfig {
        dynamic_module_config: Some(module()),
        validator_name: names::CERT_VALIDATOR.to_owned(),
        validator_config: Some(json_any(config)),
    };
    CertificateValidationContext {
        custom_validator_config: Some(extension("envoy.tls.cert_validator.dynamic_modules", validator)),
        ..Default::default()
    }
}

/// TLS that asks for no client certificate.
pub(super) fn plain(certificate: String) -> TransportSocket {
    socket(certificate, None)
}

fn socket(certificate: String, validation: Option<ValidationContextType>) -> TransportSocket {
    let context = DownstreamTlsContext {
        require_client_certificate: Some(boolean(false)),
        // A resumed session would skip the validator, and the filter would not learn the certificate.
        disable_stateful_session_resumption: true,
        session_ticket_keys_type: Some(SessionTicketKeysType::DisableStatelessSessionResumption(true)),
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
                tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
                ..Default::default()
            }),
            alpn_protocols: vec!["h2".to_owned(), "http/1.1".to_owned()],
            tls_certificate_sds_secret_configs: vec![sds(certificate)],
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
