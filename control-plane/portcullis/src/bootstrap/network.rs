use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

/// How Envoy finds a control plane on another machine.
#[derive(Debug, Args)]
pub(crate) struct Network {
    /// --xds-address of `portcullis serve`, HOST:PORT; in the place of a socket. Given several times, these are replicas.
    #[arg(
        long,
        value_name = "HOST:PORT",
        conflicts_with = "xds_socket",
        requires_all = ["xds_cert", "xds_key", "xds_server_ca"],
        value_parser = Address::parse,
    )]
    xds_address: Vec<Address>,
    /// This Envoy's client certificate, PEM, as Envoy finds the file.
    #[arg(long, value_name = "FILE", requires = "xds_address")]
    xds_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "xds_address")]
    xds_key: Option<PathBuf>,
    /// The CAs of the control plane's certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "xds_address")]
    xds_server_ca: Option<PathBuf>,
    /// The name in the control plane's certificate; the host of the first address if left out.
    #[arg(long, value_name = "NAME", requires = "xds_address")]
    xds_server_name: Option<String>,
}

/// A host and a port.
#[derive(Clone, Debug)]
struct Address {
    host: String,
    port: u16,
}

impl Address {
    fn parse(text: &str) -> Result<Self, String> {
        let fault = || "must be HOST:PORT".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = port.parse().map_err(|_| fault())?;
        if host.is_empty() { Err(fault()) } else { Ok(Self { host: host.to_owned(), port }) }
    }
}

impl Network {
    pub(super) fn endpoints(&self) -> impl Iterator<Item = Value> {
        self.xds_address.iter().map(
            |one| json!({"endpoint": {"address": {"socket_address": {"address": one.host, "port_value": one.port}}}}),
        )
    }

    pub(super) fn discovery_type(&self) -> &'static str {
        let is_name = |one: &Address| one.host.parse::<IpAddr>().is_err();
        if self.xds_address.iter().any(is_name) { "STRICT_DNS" } else { "STATIC" }
    }

    /// TLS with this Envoy's certificate; the control plane must be who it is meant to be.
    pub(super) fn transport_socket(&self) -> Option<Value> {
        let first = self.xds_address.first()?;
        let name = self.xds_server_name.as_deref().unwrap_or(&first.host);
        let is_ip = name.parse::<IpAddr>().is_ok();
        let file = |path: &Option<PathBuf>| json!({"filename": path.as_deref().map(|path| path.to_string_lossy())});
        let mut context = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
                "alpn_protocols": ["h2"],
                "tls_certificates": [{"certificate_chain": file(&self.xds_cert), "private_key": file(&self.xds_key)}],
                "validation_context": {
                    "trusted_ca": file(&self.xds_server_ca),
                    "match_typed_subject_alt_names": [
                        {"san_type": if is_ip { "IP_ADDRESS" } else { "DNS" }, "matcher": {"exact": name}},
                    ],
                },
            },
        });
        if let Some(fields) = context.as_object_mut().filter(|_| !is_ip) {
            fields.insert("sni".to_owned(), json!(name));
        }
        Some(json!({"name": "envoy.transport_sockets.tls", "typed_config": context}))
    }
}
