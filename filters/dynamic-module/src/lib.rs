//! `libportcullis.so`: maps Envoy's dynamic module ABI to `portcullis-core`.
//!
//! One HTTP filter, which judges every request, and one certificate validator, which accepts any chain and keeps it for
//! the filter to judge. Both go by the name `portcullis`.

mod activity_reports;
mod agent;
mod filter;
mod host;
mod limit_reports;
mod limits;
mod long_streams;
mod memory;
mod metrics;
mod random;
mod resident_memory;
mod timer;
mod validator;

envoy_abi::module! {
    http_filter: filter::Filter,
    cert_validator: validator::Validator,
}
