//! The objects of `envoy/istio` and `envoy/gardener`, made into a gateway's configuration by a real istiod, in an Envoy in front
//! of a real kube-apiserver.

mod activity;
mod addresses;
mod effect;
mod fixture;
mod gardener;
mod keep;
mod limits;
mod phases;
mod pods;
mod secrets;
mod serving;
mod tenants;
pub(crate) mod users;
