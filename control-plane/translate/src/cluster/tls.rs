use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::certificate_validation_context::TrustChainVerification;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, SubjectAltNameMatcher, TlsParameters,
    UpstreamTlsContext,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use envoy_types::util::pack_any;
use portcullis_api::{Cluster, PeerName, Trust};
use portcullis_filter_config::Pool;

use crate::names::{ResourceNames, parts};
use crate::proto::sds;

/// TLS to the servers. Pools without the gateway's credential show no certificate.
pub(super) fn transport_socket(cluster: &Cluster, pool: Pool, names: &ResourceNames) -> TransportSocket {
    let credentialed = matches!(pool, Pool::Http2 | Pool::Upgrade);
    let alpn = if matches!(pool, Pool::Http2 | Pool::PassThrough) { "h2" } else { "http/1.1" };
    let certificates = match cluster.certificate {
        Some(_) if credentialed => vec![sds(names.upstream(parts::CLIENT))],
        _ => Vec::new(),
    };
    client(&cluster.peer_name, alpn, certificates, validation(cluster, names))
}

/// TLS to a server of that name. A CA alone would accept any name that it ever signed, so the validation has to match the name, too.
pub(super) fn client(
    peer: &PeerName,
    alpn: &str,
    certificates: Vec<SdsSecretConfig>,
    validation: ValidationContextType,
) -> TransportSocket {
    let context = UpstreamTlsContext {
        sni: match peer {
            PeerName::Dns(name) => name.clone(),
            PeerName::Ip(_) => String::new(),
        },
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
                tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
                ..Default::default()
            }),
            alpn_protocols: vec![alpn.to_owned()],
            tls_certificate_sds_secret_configs: certificates,
            validation_context_type: Some(validation),
            ..Default::default()
        }),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack_any(context))),
    }
}

fn validation(cluster: &Cluster, names: &ResourceNames) -> ValidationContextType {
    if cluster.trust == Trust::Insecure {
        return unverified();
    }
    let context = CertificateValidationContext {
        match_typed_subject_alt_names: vec![san(&cluster.peer_name)],
        ..Default::default()
    };
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(context),
        validation_context_sds_secret_config: Some(sds(names.upstream(parts::UPSTREAM_CA))),
        ..Default::default()
    })
}

/// Any certificate of a server is taken.
pub(super) fn unverified() -> ValidationContextType {
    ValidationContextType::ValidationContext(CertificateValidationContext {
        trust_chain_verification: TrustChainVerification::AcceptUntrusted.into(),
        ..Default::default()
    })
}

pub(super) fn san(peer: &PeerName) -> SubjectAltNameMatcher {
    let (kind, value) = match peer {
        PeerName::Dns(name) => (SanType::Dns, name.clone()),
        PeerName::Ip(ip) => (SanType::IpAddress, ip.to_string()),
    };
    SubjectAltNameMatcher {
        san_type: kind.into(),
        matcher: Some(StringMatcher { match_pattern: Some(MatchPattern::Exact(value)), ..Default::default() }),
        ..Default::default()
    }
}
