//! The lab's manifests, written as people write them.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use crate::apiservers::SERVER_NAME;
use crate::{CLUSTER, IdentityMode, LOCALHOST};

/// The gateway's settings, for a gateway that listens at `address`.
pub(crate) fn settings(address: SocketAddr, wasm: Option<&Path>) -> String {
    let (ip, port) = (address.ip(), address.port());
    let wasm = wasm.map(|file| format!("  wasmModulePath: {}\n", file.display())).unwrap_or_default();
    format!(
        r#"# Settings of the gateway that all its clusters share: docs/reference/gatewaysettings.md
apiVersion: portcullis.dev/v1alpha1
kind: GatewaySettings
metadata:
  name: lab
spec:
  instance: lab
  listener:
    address: {ip}
    port: {port}
    virtualIPs: ["{ip}/32"]       # which addresses a cluster may claim for itself
  allowLoopbackUpstreams: true        # the apiservers of a lab are on this machine
{wasm}  defaultCertificate:
    file: {{certificate: default.crt, privateKey: default.key}}
"#
    )
}

/// The form in which a cluster refers to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Files below the directory `keys`.
    Files,
    /// Secrets of the store.
    Secrets,
}

impl Keys {
    fn references(self) -> &'static str {
        match self {
            Keys::Files => {
                r#"    references:                       # below .lab/keys
      client:
        file: {certificate: upstream.crt, privateKey: upstream.key}
      upstreamCA:
        file: upstream-ca.crt
      serving:
        file: {certificate: serving.crt, privateKey: serving.key}
      clientCA:
        file: client-ca.crt
"#
            }
            Keys::Secrets => {
                r#"    references:                       # Secrets of the store
      client: {secret: {name: upstream}}
      upstreamCA: {secret: {name: upstream-ca}}
      serving: {secret: {name: serving}}
      clientCA: {secret: {name: client-ca}}
"#
            }
        }
    }
}

/// The lab's cluster.
pub(crate) fn cluster(gateway: SocketAddr, servers: &[SocketAddr], identity: IdentityMode, keys: Keys) -> String {
    let (ip, identity, references) = (gateway.ip(), identity.as_str(), keys.references());
    let servers = servers.iter().fold(String::new(), |mut text, server| {
        // A String takes everything.
        let _ = writeln!(text, "    - endpoint: https://{server}");
        text
    });
    format!(
        r#"# A cluster behind the gateway: docs/reference/upstreamcluster.md
apiVersion: proxy.kubegateway.io/v1alpha1
kind: UpstreamCluster
metadata:
  name: {CLUSTER}
spec:
  servers:
{servers}  clientConfig:
    serverName: {SERVER_NAME}
  secureServing:
    serverNames: [{LOCALHOST}]
  dispatchPolicies:
    - rules:
        - verbs: ["*"]
          apiGroups: ["*"]
          resources: ["*"]
          nonResourceURLs: ["*"]
  portcullis:
    upstreamIdentity: {identity}
    # For clients that send no host name in the TLS handshake. An address of one cluster's own is looked at before names: to
    # serve a second cluster beside this one, take this line out.
    virtualIPs: [{ip}]
{references}"#
    )
}
