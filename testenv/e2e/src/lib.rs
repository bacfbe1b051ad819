//! The whole gateway under test: the control plane over a directory of manifests, and Envoy with the module.
//!
//! [`Manifest`] writes the objects that a test wishes, [`Gateway`] runs them. [`PlainGateway`] is an Envoy without a control
//! plane. The tests themselves stand in `tests/`.

mod gateway;
mod manifest;
mod plain;

pub use gateway::{Gateway, GatewayOptions};
pub use manifest::{Manifest, allow_all, settings};
pub use plain::{PlainFiles, PlainGateway, PlainSetup};
