//! A gateway's report of its activity, as it travels to the control plane from the gateway's agent or from its filter: the
//! filter's page ([`portcullis_filter_config::activity`]) by cluster, in parts of bounded size, without the clusters that have not
//! changed. Messages of the gRPC service that takes it.
//!
//! Fields have numbers, unknown ones are ignored. Limits that several gateways share
//! have messages of their own ([`limits`]) on streams of the same service.

pub mod bounds;
pub mod channel;
mod envelope;
pub mod exchanger;
mod failure;
pub mod limits;
pub mod message;
mod page;
pub mod reporter;

pub use bounds::OTHER;
pub use envelope::{
    ACKNOWLEDGEMENT_BYTES, EXCHANGE_LIMITS, EnvoyOfGateway, REQUEST_HEADERS, ReportRequest, ReportResponse, SERVICE,
    STREAM_REPORTS, request_body,
};
pub use page::{ActivityPage, Since};
