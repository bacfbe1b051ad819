//! The whole gateway under test: the control plane over a directory of manifests, and Envoy with the module.
//!
//! [`Manifest`] writes the objects of a test, [`Gateway`] runs them; [`AgentSite`] runs Envoy by `portcullis agent`, below one
//! or more control planes. [`PlainGateway`] is an Envoy without a control plane,
//! [`Ingress`] one like the Istio ingress gateway of a Gardener seed, [`Mesh`] a gateway that a real istiod configures, [`EnvoyGatewaySite`]
//! one that a real Envoy Gateway configures. The
//! tests themselves are in `tests/`.

mod agent_site;
mod documented_commands;
mod envoy_gateway;
mod gateway;
mod ingress;
mod istio;
mod manifest;
mod metrics_page;
mod plain;
mod plain_wasm;
mod render;
mod report_console;
mod secrets;

pub use agent_site::{AgentSite, AgentSiteSetup, xds_client_flags, xds_server_flags};
pub use documented_commands::documented_commands;
pub use envoy_gateway::{EnvoyGatewaySite, render_envoy_gateway};
pub use gateway::{Gateway, GatewayOptions};
pub use ingress::{Ingress, Shoot, ShootSetup};
pub use istio::{Mesh, MeshSetup, render_istio};
pub use manifest::{Manifest, allow_all, default_certificate, encode, settings};
pub use metrics_page::{Labels, MetricsPage};
pub use plain::{PlainFiles, PlainGateway, PlainSetup};
pub use report_console::ReportConsole;
pub use secrets::Secrets;
