//! All orders in which three requests and the timer may call a queue: a seat is freed while a request leaves while another comes.
//! Each call is atomic under the queue's lock, so that threads add no other order.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const REQUESTS: usize = 3;
const MS: Duration = Duration::from_millis(1);
const TIMEOUT: u64 = 100;

/// A call. Those of one request follow each other, and the timer runs once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    /// Takes a seat, or waits.
    Come(usize),
    /// Looks whether it is its turn.
    Look(usize),
    /// Leaves, with a seat or without one.
    Leave(usize),
    Timer,
}

/// The order of the calls of one request.
const STAGES: [fn(usize) -> Call; 3] = [Call::Come, Call::Look, Call::Leave];

#[derive(Default)]
enum Client {
    #[default]
    Away,
    Waits(Ticket),
    Runs {
        _seat: Seat,
    },
}

/// Counts how often a request is woken.
#[derive(Clone, Default)]
struct Bell(Arc<AtomicU32>);

impl Wake for Bell {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Scene {
    queue: Arc<FairQueue>,
    clients: [Client; REQUESTS],
    bells: [Bell; REQUESTS],
    now: Duration,
}

impl Scene {
    fn new(max: u32) -> Self {
        let config: FairQueueConfig = serde_json::from_value(serde_json::json!({
            "name": "fair", "max": max, "queues": 2, "handSize": 1, "queueLength": 9, "timeoutMilliseconds": TIMEOUT, "by": "user",
        }))
        .unwrap();
        let queue = Arc::new(FairQueue::new(&[7; 32], &Arc::default(), &config));
        Scene { queue, clients: Default::default(), bells: Default::default(), now: MS }
    }

    fn call(&mut self, call: Call) {
        self.now += MS;
        match call {
            Call::Come(number) => self.clients[number] = self.come(number),
            Call::Look(number) => {
                let before = std::mem::take(&mut self.clients[number]);
                self.clients[number] = match before {
                    Client::Waits(ticket) => self.look(number, ticket),
                    other => other,
                };
            }
            Call::Leave(number) => drop(std::mem::take(&mut self.clients[number])),
            Call::Timer => {
                // Some have waited for long enough by then.
                self.now += MS * (TIMEOUT - 3) as u32;
                self.queue.run(self.now);
            }
        }
    }

    fn come(&self, number: usize) -> Client {
        let flow = FlowHash::of(&self.queue.key, &(number as u32).to_le_bytes());
        let load = Load { width: 1, weight: 1 };
        let request = SeatRequest { queue: Arc::clone(&self.queue), flow, hand_size: 1, load };
        match request.try_take(self.now) {
            Some(seat) => Client::Runs { _seat: seat },
            None => Client::Waits(request.wait(Box::new(self.bells[number].clone()), self.now).unwrap().ticket),
        }
    }

    fn look(&self, number: usize, ticket: Ticket) -> Client {
        let rung = self.bells[number].0.load(Ordering::Relaxed);
        match ticket.turn() {
            Turn::Waiting(ticket) => {
                assert_eq!(rung, 0, "it is woken for nothing");
                Client::Waits(ticket)
            }
            Turn::Seat(seat) => {
                assert_eq!(rung, 1, "it is woken once");
                Client::Runs { _seat: seat }
            }
            Turn::Expired => {
                assert_eq!(rung, 1, "it is woken once");
                Client::Away
            }
        }
    }

    /// The seats that requests have, whether or not they know it.
    fn seats(&self) -> (u32, u32) {
        let has_seat = |client: &&Client| match client {
            Client::Away => false,
            Client::Waits(ticket) => matches!(*ticket.slot.turn.lock().unwrap(), SlotState::Given(_)),
            Client::Runs { .. } => true,
        };
        let waits = |client: &&Client| matches!(client, Client::Waits(ticket) if ticket.slot.is_waiting());
        let count = |of: &dyn Fn(&&Client) -> bool| self.clients.iter().filter(of).count() as u32;
        (count(&has_seat), count(&waits))
    }

    fn check(&self, calls: &[Call]) {
        let (seats, waiting) = self.seats();
        assert_eq!((self.queue.taken(), self.queue.waiting()), (seats, waiting), "seats and places, after {calls:?}");
        assert!(seats <= self.queue.max(), "a seat is given twice: {calls:?}");
        assert!(waiting == 0 || seats == self.queue.max(), "a seat is free, and a request waits: {calls:?}");
    }
}

/// Calls `f` with each order of the calls.
fn orders(calls: &mut Vec<Call>, stages: [usize; REQUESTS], has_run: bool, f: &mut impl FnMut(&[Call])) {
    let before = calls.len();
    for number in 0..REQUESTS {
        if let Some(call) = STAGES.get(stages[number]) {
            let mut next = stages;
            next[number] += 1;
            calls.push(call(number));
            orders(calls, next, has_run, f);
            calls.pop();
        }
    }
    if !has_run {
        calls.push(Call::Timer);
        orders(calls, stages, true, f);
        calls.pop();
    }
    if before == REQUESTS * STAGES.len() + 1 {
        f(calls);
    }
}

#[test]
fn seat_is_neither_lost_nor_given_twice_in_any_order() {
    let mut count = 0;
    for max in [1, 2] {
        orders(&mut Vec::new(), [0; REQUESTS], false, &mut |calls| {
            let mut scene = Scene::new(max);
            for (at, call) in calls.iter().enumerate() {
                scene.call(*call);
                scene.check(&calls[..=at]);
            }
            assert_eq!((scene.queue.taken(), scene.queue.waiting()), (0, 0), "{calls:?}");
            assert_eq!(scene.queue.waiting.all.load(Ordering::Relaxed), 0, "a place is lost: {calls:?}");
            count += 1;
        });
    }
    assert_eq!(count, 2 * 16_800);
}
