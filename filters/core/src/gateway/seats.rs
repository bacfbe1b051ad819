use std::time::Duration;

use crate::fair::{Admission, Seat, SeatRequest};
use crate::refusal::Refusal;
use crate::request::Interrupt;

/// Takes a seat of a fair queue, or the one that the request has waited for, if it needs one. A seat of another flow is given back: by
/// now the request is another user's, or in another queue, or needs none.
pub(super) fn take_seat(
    wanted: Option<SeatRequest>,
    admission: &mut Admission,
    uptime: Duration,
    resource: &[u8],
) -> Result<Option<Seat>, Interrupt> {
    let waited = std::mem::take(admission);
    let Some(wanted) = wanted else { return Ok(None) };
    match waited {
        Admission::Expired => return Err(Refusal::queue_timeout(resource).into()),
        Admission::Seat(seat) if seat.is_for(&wanted) => return Ok(Some(seat)),
        Admission::Seat(_) | Admission::None => {}
    }
    match wanted.try_take(uptime) {
        Some(seat) => Ok(Some(seat)),
        None => Err(Interrupt::Queue(wanted, Refusal::queue_full(resource))),
    }
}
