use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::secrets::{Paths, Resources};

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
    /// The name in the control plane's certificate; the host of the first address if unset.
    #[arg(long, value_name = "NAME", requires = "xds_address")]
    xds_server_name: Option<String>,
    /// Directory into which two files are written that lead Envoy to its certificate and to the CAs, as Envoy finds it. Envoy
    /// then reads these anew when they are replaced; without it `portcullis bootstrap` has them read at Envoy's start alone.
    /// `portcullis agent` needs none.
    #[arg(long, value_name = "DIR", requires = "xds_address")]
    pub(crate) xds_sds_dir: Option<PathBuf>,
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
    /// Hosts and ports of the control planes.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (String, u16)> {
        self.xds_address.iter().map(|one| (one.host.clone(), one.port))
    }

    /// The name in the control plane's certificate.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.xds_server_name.as_deref().or_else(|| Some(self.xds_address.first()?.host.as_str()))
    }

    /// Certificate, key and the CAs of control planes, if there is an address.
    pub(crate) fn files(&self) -> Option<[&PathBuf; 3]> {
        Some([self.xds_cert.as_ref()?, self.xds_key.as_ref()?, self.xds_server_ca.as_ref()?])
    }

    pub(super) fn endpoints(&self) -> impl Iterator<Item = Value> {
        self.xds_address.iter().map(
            |one| json!({"endpoint": {"address": {"socket_address": {"address": one.host, "port_value": one.port}}}}),
        )
    }

    pub(super) fn discovery_type(&self) -> &'static str {
        let is_name = |one: &Address| one.host.parse::<IpAddr>().is_err();
        if self.xds_address.iter().any(is_name) { "STRICT_DNS" } else { "STATIC" }
    }

    /// References to the xDS certificate; `None` without an address.
    pub(crate) fn resources(&self) -> Option<Resources> {
        let [certificate, key, ca] = self.files()?;
        Some(Resources::new(certificate, key, ca))
    }

    /// TLS with this Envoy's certificate; the control plane must be who it is meant to be.
    pub(super) fn transport_socket(&self, secrets: Option<&Paths>) -> Option<Value> {
        let (name, [certificate, key, ca]) = (self.server_name()?, self.files()?);
        let is_ip = name.parse::<IpAddr>().is_ok();
        let file = |path: &PathBuf| json!({"filename": path.to_string_lossy()});
        let mut validation = json!({"match_typed_subject_alt_names": [
            {"san_type": if is_ip { "IP_ADDRESS" } else { "DNS" }, "matcher": {"exact": name}},
        ]});
        let mut common = match secrets {
            Some(paths) => paths.context(validation),
            None => {
                set(&mut validation, "trusted_ca", file(ca));
                let pair = json!({"certificate_chain": file(certificate), "private_key": file(key)});
                json!({"tls_certificates": [pair], "validation_context": validation})
            }
        };
        let versions = json!({"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"});
        set(&mut common, "tls_params", versions);
        set(&mut common, "alpn_protocols", json!(["h2"]));
        let mut context = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": common,
        });
        if !is_ip {
            set(&mut context, "sni", json!(name));
        }
        Some(json!({"name": "envoy.transport_sockets.tls", "typed_config": context}))
    }
}

fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}
