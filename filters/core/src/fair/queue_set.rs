//! The queues of one schema: the mathematics of API Priority and Fairness, without a clock and without a lock.
//!
//! A virtual time runs at the rate at which each active queue would get seats if all had the same share. The request that would
//! end first by it is the next, if its queue got no more than that share.

use std::collections::VecDeque;
use std::time::Duration;

use super::shuffle::Hand;

/// The time that a request is expected to take, seconds; corrected when it ends.
const EXPECTED_SECONDS: f64 = 0.003;

/// Requests for which an empty queue keeps room.
const KEPT_CAPACITY: usize = 64;

/// The numbers of a schema that an edit may change at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueSettings {
    /// Seats.
    pub(super) max: u32,
    /// Number of queues; at least 1.
    pub(super) queues: usize,
    /// Maximum number of requests that wait in a queue.
    pub(super) queue_length: usize,
    /// Maximum time that a request waits.
    pub(super) timeout: Duration,
}

/// The seats of a request and what a second on one costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Number of seats; at least 1.
    pub(super) width: u32,
    /// Share of its flow; at least 1.
    pub(super) weight: u32,
}

impl Load {
    fn cost(self, seconds: f64) -> f64 {
        seconds * f64::from(self.width) / f64::from(self.weight.max(1))
    }
}

/// Seats that are taken, to be given back by [`QueueSet::finish`].
#[derive(Debug)]
pub(super) struct Charge {
    queue: usize,
    load: Load,
    since: Duration,
}

/// The queue is full.
#[derive(Debug)]
pub(super) struct Full;

/// The place of a request that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuePlace {
    queue: usize,
    number: u64,
}

/// A request that waits, with what the host finds it by.
#[derive(Debug)]
struct Waiting<W> {
    number: u64,
    value: W,
    load: Load,
    arrived: f64,
    deadline: Duration,
}

#[derive(Debug)]
struct Queue<W> {
    waiting: VecDeque<Waiting<W>>,
    running: u32,
    /// Seats that are taken or waited for.
    seats: u64,
    /// The weight of the flow that joined it last.
    weight: u32,
    /// The virtual time at which the next request begins.
    start: f64,
}

impl<W> Queue<W> {
    fn is_active(&self) -> bool {
        self.running > 0 || !self.waiting.is_empty()
    }

    /// Gives the room of many requests back once none is left.
    fn shrink(&mut self) {
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_CAPACITY {
            self.waiting = VecDeque::new();
        }
    }
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Queue { waiting: VecDeque::new(), running: 0, seats: 0, weight: 1, start: 0.0 }
    }
}

/// Queues, and the seats for which requests wait in them.
#[derive(Debug)]
pub(super) struct QueueSet<W> {
    settings: QueueSettings,
    queues: Vec<Queue<W>>,
    taken: u64,
    wanted: u64,
    waiting: usize,
    /// The weights of queues with requests, added up: the shares into which seats are divided.
    active: u64,
    virtual_time: f64,
    now: Duration,
    number: u64,
    /// The queue behind the one that was served last: ties go round.
    turn: usize,
}

impl<W> QueueSet<W> {
    /// No request yet.
    pub(super) fn new(settings: QueueSettings) -> Self {
        QueueSet {
            settings,
            queues: (0..settings.queues.max(1)).map(|_| Queue::default()).collect(),
            taken: 0,
            wanted: 0,
            waiting: 0,
            active: 0,
            virtual_time: 0.0,
            now: Duration::ZERO,
            number: 0,
            turn: 0,
        }
    }

    /// Takes other numbers. Requests go on in queues that no request joins any more.
    pub(super) fn configure(&mut self, settings: QueueSettings) {
        self.settings = settings;
        let count = settings.queues.max(self.queues.len());
        self.queues.resize_with(count, Queue::default);
    }

    /// Seats that are taken.
    pub(super) fn taken(&self) -> u32 {
        u32::try_from(self.taken).unwrap_or(u32::MAX)
    }

    /// Requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Number of queues that requests may join.
    pub(super) fn queues(&self) -> usize {
        self.settings.queues.max(1)
    }

    /// Seats.
    pub(super) fn max(&self) -> u32 {
        self.settings.max
    }

    /// Takes seats at once. `None` if there are not enough, or if others wait for them.
    pub(super) fn try_take(&mut self, hand: &Hand, load: Load, now: Duration) -> Option<Charge> {
        self.advance(now);
        if self.waiting > 0 || !self.has_room(load) {
            return None;
        }
        let index = self.shortest(hand);
        self.change(index, |queue| {
            queue.running = queue.running.saturating_add(1);
            queue.seats = queue.seats.saturating_add(u64::from(load.width));
            queue.weight = load.weight.max(1);
        });
        Some(self.charge(index, load))
    }

    /// Adds a request to the shortest queue of the hand. Returns its place.
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn wait(&mut self, hand: &Hand, load: Load, now: Duration, value: W) -> Result<QueuePlace, Full> {
        self.advance(now);
        let index = self.shortest(hand);
        let most = self.settings.queue_length;
        if self.queues.get(index).is_none_or(|queue| queue.waiting.len() >= most) {
            return Err(Full);
        }
        self.number = self.number.wrapping_add(1);
        let (number, arrived) = (self.number, self.virtual_time);
        let deadline = self.deadline();
        self.change(index, |queue| {
            queue.waiting.push_back(Waiting { number, value, load, arrived, deadline });
            queue.weight = load.weight.max(1);
            queue.seats = queue.seats.saturating_add(u64::from(load.width));
        });
        self.waiting = self.waiting.saturating_add(1);
        self.wanted = self.wanted.saturating_add(u64::from(load.width));
        Ok(QueuePlace { queue: index, number })
    }

    /// Gives seats to the next request that waits, if there are enough for it. A request that needs more than there are at the
    /// moment is not overtaken: it would wait forever.
    pub(super) fn serve(&mut self, now: Duration) -> Option<(W, Charge)> {
        self.advance(now);
        let index = self.next()?;
        let load = self.queues.get(index)?.waiting.front()?.load;
        if !self.has_room(load) {
            return None;
        }
        let waiting = self.change(index, |queue| {
            let waiting = queue.waiting.pop_front()?;
            queue.start = queue.start.max(waiting.arrived);
            queue.running = queue.running.saturating_add(1);
            queue.shrink();
            Some(waiting)
        })?;
        self.left(load);
        self.turn = index.saturating_add(1);
        Some((waiting.value, self.charge(index, load)))
    }

    /// Gives seats back.
    pub(super) fn finish(&mut self, charge: Charge, now: Option<Duration>) {
        self.advance(now.unwrap_or(self.now));
        let Charge { queue, load, since } = charge;
        self.taken = self.taken.saturating_sub(u64::from(load.width));
        let took = self.now.saturating_sub(since).as_secs_f64();
        self.change(queue, |queue| {
            queue.running = queue.running.saturating_sub(1);
            queue.seats = queue.seats.saturating_sub(u64::from(load.width));
            queue.start += load.cost(took) - load.cost(EXPECTED_SECONDS);
        });
    }

    /// Removes a request that waits.
    pub(super) fn remove(&mut self, place: QueuePlace, now: Option<Duration>) -> Option<W> {
        self.advance(now.unwrap_or(self.now));
        // In a queue, numbers are in ascending order: clients that leave in numbers cost no search of all that wait.
        let waiting = &self.queues.get(place.queue)?.waiting;
        let at = waiting.binary_search_by_key(&place.number, |waiting| waiting.number).ok()?;
        self.remove_at(place.queue, at)
    }

    /// Removes the requests that have waited for too long.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<W> {
        self.advance(now);
        let mut expired = Vec::new();
        for index in 0..self.queues.len() {
            let late: Vec<usize> = self.queues.get(index).map_or_else(Vec::new, |queue| {
                let waiting = queue.waiting.iter().enumerate();
                waiting.filter(|(_, waiting)| waiting.deadline <= now).map(|(at, _)| at).collect()
            });
            // As a rule they are in front, where a place is removed at once.
            for (at, gone) in late.into_iter().zip(0..) {
                expired.extend(self.remove_at(index, at.saturating_sub(gone)));
            }
        }
        expired
    }

    /// The time at which a request has waited for too long that comes now.
    pub(super) fn deadline(&self) -> Duration {
        self.now.saturating_add(self.settings.timeout)
    }

    /// The time at which the first request has waited for too long.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.queues.iter().flat_map(|queue| queue.waiting.iter().map(|waiting| waiting.deadline)).min()
    }

    fn remove_at(&mut self, index: usize, at: usize) -> Option<W> {
        let waiting = self.change(index, |queue| {
            let waiting = queue.waiting.remove(at)?;
            queue.seats = queue.seats.saturating_sub(u64::from(waiting.load.width));
            queue.shrink();
            Some(waiting)
        })?;
        self.left(waiting.load);
        Some(waiting.value)
    }

    fn left(&mut self, load: Load) {
        self.waiting = self.waiting.saturating_sub(1);
        self.wanted = self.wanted.saturating_sub(u64::from(load.width));
    }

    /// One that is wider than all seats has them alone.
    fn has_room(&self, load: Load) -> bool {
        let after = self.taken.saturating_add(u64::from(load.width));
        after <= u64::from(self.settings.max) || (self.taken == 0 && self.settings.max > 0)
    }

    /// Takes seats for a request that its queue counts among those that run.
    fn charge(&mut self, queue: usize, load: Load) -> Charge {
        self.taken = self.taken.saturating_add(u64::from(load.width));
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.start += load.cost(EXPECTED_SECONDS);
        }
        Charge { queue, load, since: self.now }
    }

    fn shortest(&self, hand: &Hand) -> usize {
        let seats = |index: &usize| self.queues.get(*index).map_or(u64::MAX, |queue| queue.seats);
        hand.queues().min_by_key(seats).filter(|index| *index < self.queues.len()).unwrap_or(0)
    }

    /// The queue whose first request would end first.
    fn next(&self) -> Option<usize> {
        let end = |queue: &Queue<W>| {
            let first = queue.waiting.front()?;
            Some(queue.start.max(first.arrived) + first.load.cost(EXPECTED_SECONDS))
        };
        let count = self.queues.len();
        let turns = (0..count).map(|step| self.turn.wrapping_add(step) % count);
        let ends = turns.filter_map(|index| Some((end(self.queues.get(index)?)?, index)));
        ends.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, index)| index)
    }

    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        if self.active > 0 {
            let seats = self.taken.saturating_add(self.wanted).min(u64::from(self.settings.max));
            self.virtual_time += passed.as_secs_f64() * seats as f64 / self.active as f64;
        }
    }

    /// Changes a queue. One that becomes active has had its share up to now.
    fn change<R: Default>(&mut self, index: usize, f: impl FnOnce(&mut Queue<W>) -> R) -> R {
        let Some(queue) = self.queues.get_mut(index) else { return R::default() };
        let share = |queue: &Queue<W>| if queue.is_active() { u64::from(queue.weight) } else { 0 };
        let before = share(queue);
        let result = f(queue);
        let after = share(queue);
        if before == 0 && after > 0 {
            queue.start = self.virtual_time;
        }
        self.active = self.active.saturating_sub(before).saturating_add(after);
        result
    }
}
