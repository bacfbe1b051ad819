//! Fair queues: beyond a number of seats requests wait, each in a queue of its flow, and get their turn fairly.
//!
//! [`FairQueue`] is one schema's state in the process; [`FairSchema`] finds the flow of a request. A request gets a [`Seat`] at once,
//! or a [`Ticket`] by which it waits. Time is an argument.
//!
//! # Invariants
//! - A seat is given back exactly once, however its request ends: by its drop at the latest.
//! - Only the request whose turn it is is woken, after the lock is free.
//! - A ticket that is dropped leaves its queue, and gives back the seat that it was given meanwhile.

#[cfg(test)]
mod orders;
mod queue_set;
mod schema;
mod shuffle;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_filter_config::FairQueueConfig;
use queue_set::{Charge, Load, QueuePlace, QueueSet, QueueSettings};
use ring::hmac;
pub use schema::Flow;
pub(crate) use schema::{FairSchema, FlowOf};
use shuffle::{FlowHash, Hand};

use crate::schedule::{Task, Wake};

/// Wakes the stream of a request that waits, from any thread.
pub type BoxedWake = Box<dyn Wake + Send + Sync>;

/// Maximum number of requests that wait in a process, over all schemas, but for the places that each cluster has in any case.
const MAX_WAITING: u32 = 16_384;
/// Places that each cluster has whatever others have taken, up to as many again for all of these together.
const OWN_PLACES: u32 = 64;
/// Shortest time between two looks for requests that have waited for too long: each look is at all that wait.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(10);

/// The number of requests that wait in a process, and of those of one cluster among them.
#[derive(Debug, Default)]
pub struct WaitingCount {
    all: Arc<AtomicU32>,
    own: Arc<AtomicU32>,
}

impl WaitingCount {
    /// The count of another cluster of the process.
    #[must_use]
    pub fn of_cluster(&self) -> Self {
        WaitingCount { all: Arc::clone(&self.all), own: Arc::default() }
    }

    /// A cluster has at most half of the places that the others leave, so that none of them takes all; and a few in any case, so
    /// that many clusters of one owner do not take all either.
    fn enter(self: &Arc<Self>) -> Option<WaitingPlace> {
        let one_more = |count: u32| (count < MAX_WAITING.saturating_mul(2)).then(|| count.saturating_add(1));
        let before = self.all.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        let own = self.own.fetch_add(1, Ordering::AcqRel);
        let place = WaitingPlace(Arc::clone(self));
        let others = before.saturating_sub(own);
        (own < OWN_PLACES || own < MAX_WAITING.saturating_sub(others) / 2).then_some(place)
    }
}

#[derive(Debug)]
struct WaitingPlace(Arc<WaitingCount>);

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.0.own.fetch_sub(1, Ordering::AcqRel);
        self.0.all.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The queues of one schema, shared by all workers of the process. Outlives the configurations that name it, so that an edit
/// loses neither seats nor requests that wait.
#[derive(Debug)]
pub struct FairQueue {
    key: hmac::Key,
    waiting: Arc<WaitingCount>,
    state: Mutex<FairState>,
}

#[derive(Debug)]
struct FairState {
    set: QueueSet<Arc<Slot>>,
    /// The uptime at which the host's timer runs next.
    timer: Option<Duration>,
}

/// A request that waits, as its queue and its stream both hold it. Changes under the queue's lock alone.
struct Slot {
    waker: BoxedWake,
    turn: Mutex<SlotState>,
    _counted: WaitingPlace,
}

#[derive(Debug, Default)]
enum SlotState {
    #[default]
    Waiting,
    Given(Charge),
    Expired,
    /// The request took its seat.
    Taken,
}

impl fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Slot").field(&self.turn).finish()
    }
}

impl Slot {
    fn set(&self, state: SlotState) -> SlotState {
        std::mem::replace(&mut *self.turn.lock().unwrap_or_else(PoisonError::into_inner), state)
    }

    fn is_waiting(&self) -> bool {
        matches!(*self.turn.lock().unwrap_or_else(PoisonError::into_inner), SlotState::Waiting)
    }
}

/// A request that wants a seat: its queues, its flow and its width.
#[derive(Clone, Debug)]
pub struct SeatRequest {
    queue: Arc<FairQueue>,
    flow: FlowHash,
    hand_size: usize,
    load: Load,
}

/// Seats of a request that runs. Given back when it is dropped.
#[derive(Debug)]
pub struct Seat {
    request: SeatRequest,
    charge: Option<Charge>,
}

/// A request's place in a queue.
#[derive(Debug)]
pub struct Ticket {
    request: SeatRequest,
    place: QueuePlace,
    slot: Arc<Slot>,
}

/// A ticket with what the host has to do for it.
#[derive(Debug)]
pub struct Wait {
    /// The place in the queue.
    pub ticket: Ticket,
    /// The uptime at which [`Task::run`] of the queue has to be called, unless it was asked for already.
    pub call_at: Option<Duration>,
}

/// The state of a ticket.
#[derive(Debug)]
pub enum Turn {
    /// It waits.
    Waiting(Ticket),
    /// It is the request's turn.
    Seat(Seat),
    /// It waited for too long.
    Expired,
}

/// The outcome of a wait, with which the request is decided again.
#[derive(Debug, Default)]
pub enum Admission {
    /// Nothing: it has not waited.
    #[default]
    None,
    /// A seat.
    Seat(Seat),
    /// It waited for too long.
    Expired,
}

/// The queue of the request is full, or as many wait in the process as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl FairQueue {
    /// Queues without requests.
    pub fn new(secret: &[u8; 32], waiting: &Arc<WaitingCount>, config: &FairQueueConfig) -> Self {
        FairQueue {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            waiting: Arc::clone(waiting),
            state: Mutex::new(FairState { set: QueueSet::new(settings(config)), timer: None }),
        }
    }

    /// Takes the numbers of another configuration. Running requests keep their seats, and those that wait keep their places: after
    /// `max` has shrunk, none gets a seat until enough are free.
    pub fn configure(&self, config: &FairQueueConfig) {
        self.change(None, |state| state.set.configure(settings(config)));
    }

    /// Requests that wait.
    pub fn waiting(&self) -> u32 {
        u32::try_from(self.lock().set.waiting()).unwrap_or(u32::MAX)
    }

    /// Seats that are taken.
    pub fn taken(&self) -> u32 {
        self.lock().set.taken()
    }

    /// Seats.
    pub fn max(&self) -> u32 {
        self.lock().set.max()
    }

    /// The host could not do what [`Wait::call_at`] asks for: the next request that waits asks for it again.
    pub fn timer_failed(&self) {
        self.lock().timer = None;
    }

    fn lock(&self) -> MutexGuard<'_, FairState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, gives seats that are free to those whose turn it is, and wakes these.
    fn change<R>(&self, now: Option<Duration>, f: impl FnOnce(&mut FairState) -> R) -> R {
        let mut woken: Vec<Arc<Slot>> = Vec::new();
        let result = {
            let mut state = self.lock();
            let result = f(&mut state);
            while let Some((slot, charge)) = state.set.serve(now.unwrap_or_default()) {
                slot.set(SlotState::Given(charge));
                woken.push(slot);
            }
            result
        };
        woken.iter().for_each(|slot| slot.waker.wake());
        result
    }
}

/// Ends the wait of requests that have waited for too long.
impl Task for FairQueue {
    fn run(&self, uptime: Duration) -> Option<Duration> {
        let mut expired = Vec::new();
        let next = self.change(Some(uptime), |state| {
            expired = state.set.expire(uptime);
            for slot in &expired {
                slot.set(SlotState::Expired);
            }
            state.timer = state.set.next_deadline().map(|next| next.max(uptime.saturating_add(EXPIRY_INTERVAL)));
            state.timer
        });
        expired.iter().for_each(|slot| slot.waker.wake());
        next
    }
}

impl SeatRequest {
    /// Takes a seat at once. `None` if none is free, or others wait for it.
    pub(crate) fn try_take(&self, now: Duration) -> Option<Seat> {
        let mut state = self.queue.lock();
        let hand = self.hand(&state);
        let charge = state.set.try_take(&hand, self.load, now)?;
        drop(state);
        Some(Seat { request: self.clone(), charge: Some(charge) })
    }

    /// Waits for a seat; the waker is called when [`Ticket::turn`] has another answer. The turn may have come already.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn wait(self, waker: BoxedWake, now: Duration) -> Result<Wait, QueueFull> {
        let counted = self.queue.waiting.enter().ok_or(QueueFull)?;
        let slot = Arc::new(Slot { waker, turn: Mutex::default(), _counted: counted });
        let (place, call_at) = self.queue.change(Some(now), |state| {
            let hand = self.hand(state);
            let place = state.set.wait(&hand, self.load, now, Arc::clone(&slot)).map_err(|_| QueueFull)?;
            // An edit may have made it shorter than that of the others.
            let deadline = state.set.deadline();
            let call_at = state.timer.is_none_or(|timer| deadline < timer).then_some(deadline);
            state.timer = call_at.or(state.timer);
            Ok((place, call_at))
        })?;
        Ok(Wait { ticket: Ticket { request: self, place, slot }, call_at })
    }

    /// The queues, for the host's timer.
    pub fn queue(&self) -> &Arc<FairQueue> {
        &self.queue
    }

    fn hand(&self, state: &FairState) -> Hand {
        Hand::deal(self.flow, state.set.queues(), self.hand_size)
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue) && self.flow == other.flow && self.load == other.load
    }
}

impl Ticket {
    /// The state of the ticket.
    pub fn turn(self) -> Turn {
        if self.slot.is_waiting() {
            return Turn::Waiting(self);
        }
        match self.slot.set(SlotState::Taken) {
            SlotState::Given(charge) => Turn::Seat(Seat { request: self.request.clone(), charge: Some(charge) }),
            SlotState::Waiting | SlotState::Expired | SlotState::Taken => Turn::Expired,
        }
    }

    /// The queues, for the host's timer.
    pub fn queue(&self) -> &Arc<FairQueue> {
        &self.request.queue
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Most have had their turn.
        if matches!(
            *self.slot.turn.lock().unwrap_or_else(PoisonError::into_inner),
            SlotState::Taken | SlotState::Expired
        ) {
            return;
        }
        self.request.queue.change(None, |state| match self.slot.set(SlotState::Taken) {
            SlotState::Waiting => drop(state.set.remove(self.place, None)),
            SlotState::Given(charge) => state.set.finish(charge, None),
            SlotState::Expired | SlotState::Taken => {}
        });
    }
}

impl Seat {
    #[cfg(test)]
    pub(crate) fn queue(&self) -> &Arc<FairQueue> {
        &self.request.queue
    }

    /// Whether it is the seat that such a request needs.
    pub(crate) fn is_for(&self, wanted: &SeatRequest) -> bool {
        self.request.is_same(wanted)
    }

    /// Gives the seat back.
    pub fn release(mut self, now: Option<Duration>) {
        self.give_back(now);
    }

    fn give_back(&mut self, now: Option<Duration>) {
        if let Some(charge) = self.charge.take() {
            self.request.queue.change(now, |state| state.set.finish(charge, now));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

fn settings(config: &FairQueueConfig) -> QueueSettings {
    let number = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    QueueSettings {
        max: config.max,
        queues: number(config.queues.min(FairQueueConfig::MAX_QUEUES)),
        queue_length: number(config.queue_length),
        timeout: Duration::from_millis(config.timeout_milliseconds),
    }
}
