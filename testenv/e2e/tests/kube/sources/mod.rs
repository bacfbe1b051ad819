//! Sources of objects: a directory and a Kubernetes API lead to the same, and the loss of either takes nothing away.

mod conformance;
mod control_plane;
mod discovery;
mod fixture;
mod gateway_api;
mod gateway_class;
mod gateway_envoys;
mod gateway_frontend;
mod gateway_health;
mod gateway_https;
mod gateway_https_edits;
mod gateway_label_edits;
mod gateway_policies;
mod gateway_secrets;
mod gateway_upstreams;
mod in_cluster;
mod instances;
mod leader;
mod limits;
mod outage;
mod ownership;
mod policies;
mod profiles;
mod references;
mod rights;
mod scale;
mod settings;
mod steady_requests;
mod traffic;

pub(crate) use control_plane::{ControlPlaneUnderTest, SOON};
pub(crate) use discovery::own_address;
pub(crate) use fixture::{NAMESPACE, SourceFixture, printed};
pub(crate) use gateway_api::Site as GatewayApiSite;
