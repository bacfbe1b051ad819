//! Division of limits that several gateways share: how many requests in flight, or requests per second, each gateway may admit,
//! so that all of them together admit no more than the limit.
//!
//! A part is a lease. A gateway that does not report loses it by its own clock after [`portcullis_filter_config::limits::LEASE`], and
//! only later ([`RESERVED_FOR`]) is it divided again. A part that shrinks stays reserved until its gateway reports that it has
//! no more than that, and that no more requests are in flight. A [`Limiter`] that knows nothing yet renews what gateways say
//! that they have, and grants nothing else, until every lease of an earlier one has ended.
//!
//! - [`limiter`]: all limits, and the processes that report. Start here.
//! - `shares`: one limit. `guests`: the parts of owners whose reports may be lies. `granted`: what their answers have given. `pool`: the processes of one owner. `holdings`: the
//!   part of each process. `division`: the parts by what each one wants. `issue`: tokens of a rate that is counted. `spare`: tokens
//!   that move between gateways.
//! - `state`, `shares_state`: the limits of a cluster written down, for another process to go on with.
//!
//! No clock, no I/O: time is an argument. Nothing here knows how reports travel.

mod division;
mod granted;
mod guests;
mod holder;
mod holdings;
mod issue;
mod limiter;
mod message;
mod owners;
mod pool;
mod shares;
mod shares_state;
mod spare;
mod state;
#[cfg(test)]
mod tests;

pub use holder::Holder;
pub use holdings::RESERVED_FOR;
pub use limiter::{HolderRefusal, Limiter};
pub use owners::NodeOwners;
pub use shares::LimitAnswer;
