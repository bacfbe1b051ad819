use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const MS: Duration = Duration::from_millis(1);

fn config(max: u32) -> FairQueueConfig {
    serde_json::from_value(serde_json::json!({
        "name": "fair", "max": max, "queues": 64, "handSize": 6, "queueLength": 50, "timeoutMilliseconds": 15_000, "by": "user",
    }))
    .unwrap()
}

fn queue(max: u32) -> Arc<FairQueue> {
    Arc::new(FairQueue::new(&[7; 32], &Arc::default(), &config(max)))
}

fn wanted(queue: &Arc<FairQueue>, flow: u32, width: u32) -> SeatRequest {
    weighted(queue, flow, width, 1)
}

fn weighted(queue: &Arc<FairQueue>, flow: u32, width: u32, weight: u32) -> SeatRequest {
    let flow = FlowHash::of(&queue.key, &flow.to_le_bytes());
    SeatRequest { queue: Arc::clone(queue), flow, hand_size: 6, load: Load { width, weight } }
}

/// Counts how often it is woken.
#[derive(Clone, Default)]
struct Woken(Arc<AtomicU32>);

impl Woken {
    fn times(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn wait(request: SeatRequest, woken: &Woken, now: Duration) -> Result<Wait, QueueFull> {
    request.wait(Box::new(woken.clone()), now)
}

fn seat(turn: Turn) -> Seat {
    match turn {
        Turn::Seat(seat) => seat,
        turn => panic!("{turn:?}"),
    }
}

#[test]
fn seat_that_is_free_is_taken_at_once() {
    let queue = queue(2);
    let first = wanted(&queue, 1, 1).try_take(MS).unwrap();
    let second = wanted(&queue, 1, 1).try_take(MS).unwrap();
    assert!(wanted(&queue, 2, 1).try_take(MS).is_none());
    assert_eq!((queue.taken(), queue.waiting(), queue.max()), (2, 0, 2));
    first.release(Some(MS * 2));
    drop(second);
    assert_eq!(queue.taken(), 0);
}

#[test]
fn request_whose_turn_it_is_is_woken_alone() {
    let queue = queue(1);
    let running = wanted(&queue, 1, 1).try_take(MS).unwrap();
    let wakers: [Woken; 3] = Default::default();
    let tickets: Vec<_> = wakers.iter().map(|woken| wait(wanted(&queue, 2, 1), woken, MS).unwrap().ticket).collect();
    assert!(wanted(&queue, 3, 1).try_take(MS).is_none());
    running.release(Some(MS * 5));
    assert_eq!(wakers.each_ref().map(Woken::times), [1, 0, 0]);
    let mut tickets = tickets.into_iter();
    let next = seat(tickets.next().unwrap().turn());
    let second = match tickets.next().unwrap().turn() {
        Turn::Waiting(ticket) => ticket,
        turn => panic!("{turn:?}"),
    };
    drop(next);
    assert_eq!(wakers.each_ref().map(Woken::times), [1, 1, 0]);
    assert_eq!((queue.taken(), queue.waiting()), (1, 1));
    drop((second, tickets));
    assert_eq!((queue.taken(), queue.waiting()), (0, 0));
}

#[test]
fn request_that_leaves_frees_its_place_or_its_seat() {
    let queue = queue(1);
    let running = wanted(&queue, 1, 1).try_take(MS).unwrap();
    let (leaves, stays) = (Woken::default(), Woken::default());
    let gone = wait(wanted(&queue, 2, 1), &leaves, MS).unwrap().ticket;
    let ticket = wait(wanted(&queue, 3, 1), &stays, MS).unwrap().ticket;
    drop(gone);
    assert_eq!(queue.waiting(), 1);
    let late = wait(wanted(&queue, 2, 1), &leaves, MS * 2).unwrap().ticket;
    running.release(Some(MS * 3));
    assert_eq!((leaves.times(), stays.times()), (0, 1));
    // The seat was given to it, and it leaves without having taken it.
    drop(ticket);
    assert_eq!(leaves.times(), 1);
    drop(seat(late.turn()));
    assert_eq!((queue.taken(), queue.waiting()), (0, 0));
}

#[test]
fn request_waits_no_longer_than_it_may() {
    let queue = queue(1);
    let running = wanted(&queue, 1, 1).try_take(MS).unwrap();
    let (first, second) = (Woken::default(), Woken::default());
    let one = wait(wanted(&queue, 2, 1), &first, MS).unwrap();
    let other = wait(wanted(&queue, 3, 1), &second, MS * 100).unwrap();
    assert_eq!((one.call_at, other.call_at), (Some(MS * 15_001), None), "one timer for all");
    assert_eq!(queue.run(MS * 15_001), Some(MS * 15_100));
    assert_eq!((first.times(), second.times()), (1, 0));
    assert!(matches!(one.ticket.turn(), Turn::Expired));
    assert_eq!(queue.run(MS * 15_100), None);
    assert!(matches!(other.ticket.turn(), Turn::Expired));
    assert_eq!((queue.taken(), queue.waiting()), (1, 0));
    drop(running);
    let again = wanted(&queue, 4, 1).try_take(MS * 15_200);
    assert!(again.is_some());
    assert!(wait(wanted(&queue, 5, 1), &first, MS * 15_200).unwrap().call_at.is_some(), "a new timer");
}

#[test]
fn full_queue_and_full_process_refuse() {
    let waiting = Arc::new(WaitingCount::default());
    let small = FairQueueConfig { queues: 1, hand_size: 1, queue_length: 2, ..config(1) };
    let queue = Arc::new(FairQueue::new(&[7; 32], &waiting, &small));
    let woken = Woken::default();
    let _running = wanted(&queue, 1, 1).try_take(MS).unwrap();
    let tickets: Vec<_> = (0..2).map(|flow| wait(wanted(&queue, flow, 1), &woken, MS).unwrap()).collect();
    assert_eq!(wait(wanted(&queue, 3, 1), &woken, MS).err(), Some(QueueFull));
    waiting.all.store(MAX_WAITING * 2, Ordering::Relaxed);
    let other = Arc::new(FairQueue::new(&[7; 32], &waiting, &small));
    let _other = wanted(&other, 1, 1).try_take(MS).unwrap();
    assert_eq!(wait(wanted(&other, 1, 1), &woken, MS).err(), Some(QueueFull));
    waiting.all.store(2, Ordering::Relaxed);
    drop(tickets);
    let counts = [&waiting.all, &waiting.own].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [0, 0], "a request that leaves is counted no more");
}

#[test]
fn cluster_has_half_of_the_places_that_others_leave() {
    let all = WaitingCount::default();
    let clusters: Vec<_> = (0..4).map(|_| Arc::new(all.of_cluster())).collect();
    let mut places = Vec::new();
    let taken: Vec<usize> = clusters
        .iter()
        .map(|cluster| {
            let before = places.len();
            while let Some(place) = cluster.enter() {
                places.push(place);
            }
            places.len() - before
        })
        .collect();
    assert_eq!(taken, [8_192, 4_096, 2_048, 1_024]);
    let late = (0..40).map(|_| Arc::new(all.of_cluster()));
    late.for_each(|cluster| places.extend((0..OWN_PLACES).map(|_| cluster.enter().unwrap())));
    drop(places);
    assert_eq!(all.all.load(Ordering::Relaxed), 0);
}

#[test]
fn wide_request_waits_for_all_its_seats() {
    let queue = queue(10);
    let narrow: Vec<_> = (0..9).map(|flow| wanted(&queue, flow, 1).try_take(MS).unwrap()).collect();
    let woken = Woken::default();
    let list = wait(wanted(&queue, 20, 4), &woken, MS).unwrap().ticket;
    assert!(wanted(&queue, 21, 1).try_take(MS).is_none(), "nobody overtakes it");
    let mut narrow = narrow.into_iter();
    narrow.by_ref().take(2).for_each(drop);
    assert_eq!(woken.times(), 0);
    narrow.by_ref().take(1).for_each(drop);
    assert_eq!((woken.times(), queue.taken()), (1, 10));
    let list = seat(list.turn());
    narrow.for_each(drop);
    drop(list);
    let whole = wanted(&queue, 1, 50).try_take(MS);
    assert!(whole.is_some(), "one that is wider than all seats has them alone");
}

#[test]
fn edit_keeps_seats_and_those_who_wait() {
    let queue = queue(4);
    let mut running: Vec<_> = (0..4).map(|flow| wanted(&queue, flow, 1).try_take(MS).unwrap()).collect();
    let woken: [Woken; 4] = Default::default();
    let tickets: Vec<_> =
        woken.iter().zip(10..).map(|(woken, flow)| wait(wanted(&queue, flow, 1), woken, MS).unwrap()).collect();
    queue.configure(&FairQueueConfig { queues: 2, hand_size: 1, ..config(2) });
    running.truncate(2);
    assert_eq!((queue.taken(), queue.waiting()), (2, 4), "no seat before enough are free");
    running.truncate(1);
    assert_eq!((queue.taken(), queue.waiting()), (2, 3));
    queue.configure(&config(100));
    assert_eq!((queue.taken(), queue.waiting()), (5, 0), "an edit gives what it adds");
    assert!(woken.iter().all(|woken| woken.times() == 1));
    drop((running, tickets));
    assert_eq!(queue.taken(), 0);
}

#[test]
fn no_seat_is_lost_after_a_hundred_thousand_resets() {
    let queue = queue(5);
    let woken = Woken::default();
    let mut random = 1u64;
    let (mut seats, mut tickets) = (Vec::new(), Vec::new());
    for step in 0..300_000u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (choice, pick, now) = (random >> 60, (random >> 33) as usize, MS * step);
        let request = wanted(&queue, (random >> 20) as u32 % 40, 1 + (choice as u32 % 3));
        match choice {
            0..=6 => match request.try_take(now) {
                Some(seat) => seats.push(seat),
                None => tickets.extend(wait(request, &woken, now).ok().map(|wait| wait.ticket)),
            },
            7..=9 if !tickets.is_empty() => drop(tickets.swap_remove(pick % tickets.len())),
            10..=11 if !tickets.is_empty() => match tickets.swap_remove(pick % tickets.len()).turn() {
                Turn::Seat(seat) => seats.push(seat),
                Turn::Waiting(ticket) => tickets.push(ticket),
                Turn::Expired => {}
            },
            12 => drop(queue.run(now)),
            13 => queue.configure(&FairQueueConfig { queues: 1 + (pick % 64) as u32, hand_size: 1, ..config(5) }),
            _ if !seats.is_empty() => drop(seats.swap_remove(pick % seats.len())),
            _ => {}
        }
        assert!(queue.taken() <= 5);
        assert!(queue.waiting() as usize <= tickets.len());
    }
    drop((seats, tickets));
    assert_eq!((queue.taken(), queue.waiting()), (0, 0));
    assert_eq!(queue.waiting.all.load(Ordering::Relaxed), 0);
}

#[test]
fn seats_of_many_threads_never_exceed_the_limit() {
    let (queue, peak) = (queue(3), AtomicU32::new(0));
    let running = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for flow in 0..8 {
            let (queue, peak, running) = (&queue, &peak, &running);
            scope.spawn(move || {
                for _ in 0..2_000 {
                    let request = wanted(queue, flow, 1);
                    let seat = match request.try_take(MS) {
                        Some(seat) => seat,
                        None => {
                            let (sender, woken) = std::sync::mpsc::channel();
                            let mut ticket = request.wait(Box::new(Sending(sender)), MS).unwrap().ticket;
                            loop {
                                match ticket.turn() {
                                    Turn::Seat(seat) => break seat,
                                    Turn::Waiting(again) => ticket = again,
                                    Turn::Expired => panic!("nobody lets it expire"),
                                }
                                woken.recv().unwrap();
                            }
                        }
                    };
                    peak.fetch_max(running.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
                    running.fetch_sub(1, Ordering::AcqRel);
                    drop(seat);
                }
            });
        }
    });
    assert!((1..=3).contains(&peak.load(Ordering::Acquire)));
    assert_eq!((queue.taken(), queue.waiting()), (0, 0));
}

struct Sending(std::sync::mpsc::Sender<()>);

impl Wake for Sending {
    fn wake(&self) {
        // A request that has gone is not woken.
        let _ = self.0.send(());
    }
}

/// Flows whose requests come at regular times.
struct Flow {
    every: Duration,
    weight: u32,
    /// Requests that may run or wait at a time; a client with more waits itself.
    most: usize,
}

#[derive(Default)]
struct Served {
    times: Vec<Duration>,
    refused: usize,
}

const SERVICE: Duration = Duration::from_millis(10);

/// Runs flows against a server that takes ten milliseconds for a request, by a clock of its own.
fn simulate(queue: &Arc<FairQueue>, flows: &[Flow], length: Duration) -> Vec<Served> {
    let mut served: Vec<Served> = flows.iter().map(|_| Served::default()).collect();
    let mut events = BinaryHeap::new();
    for (flow, Flow { every, .. }) in flows.iter().enumerate() {
        events.push(Reverse((*every * flow as u32 / flows.len() as u32, 0, flow)));
    }
    let (mut running, mut waiting) = (std::collections::HashMap::new(), Vec::new());
    let mut under_way = vec![0usize; flows.len()];
    let mut number = 0usize;
    while let Some(Reverse((now, ended, flow))) = events.pop() {
        if ended > 0 {
            let (seat, came): (Seat, Duration) = running.remove(&ended).unwrap();
            seat.release(Some(now));
            under_way[flow] -= 1;
            served[flow].times.push(now - came);
        } else {
            if now < length {
                events.push(Reverse((now + flows[flow].every, 0, flow)));
            }
            if under_way[flow] < flows[flow].most {
                let request = weighted(queue, flow as u32, 1, flows[flow].weight);
                match wait(request, &Woken::default(), now) {
                    Ok(wait) => {
                        under_way[flow] += 1;
                        waiting.push((wait.ticket, flow, now));
                    }
                    Err(QueueFull) => served[flow].refused += 1,
                }
            }
        }
        for (ticket, flow, came) in std::mem::take(&mut waiting) {
            match ticket.turn() {
                Turn::Seat(seat) => {
                    number += 1;
                    running.insert(number, (seat, came));
                    events.push(Reverse((now + SERVICE, number, flow)));
                }
                Turn::Waiting(ticket) => waiting.push((ticket, flow, came)),
                Turn::Expired => served[flow].refused += 1,
            }
        }
    }
    served
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

#[test]
fn mice_beside_an_elephant_wait_less_than_three_times_as_long() {
    let mouse = || Flow { every: MS * 200, weight: 1, most: usize::MAX };
    let length = Duration::from_secs(20);
    let alone: Vec<_> = (0..20).map(|_| mouse()).collect();
    let times = |served: &[Served]| served.iter().flat_map(|flow| flow.times.clone()).collect::<Vec<_>>();
    let alone = p99(times(&simulate(&queue(4), &alone, length)));
    // Four seats of ten milliseconds are 400 requests a second; the mice ask for 100 of them and the elephant for 500.
    let mut flows = vec![Flow { every: MS * 2, weight: 1, most: usize::MAX }];
    flows.extend((0..20).map(|_| mouse()));
    let served = simulate(&queue(4), &flows, length);
    let beside = p99(times(&served[1..]));
    println!("mice: p99 {alone:?} alone, {beside:?} beside the elephant");
    assert!(beside < alone * 3, "{alone:?} {beside:?}");
    let refused: usize = served[1..].iter().map(|flow| flow.refused).sum();
    assert_eq!(refused, 0);
    let mice: usize = served[1..].iter().map(|flow| flow.times.len()).sum();
    assert!(mice >= 2_000, "{mice}");
    // Served while the elephant asked; those that wait at the end are served after that.
    let elephant = served[0].times.len();
    assert!((5_900..=6_400).contains(&elephant), "{elephant}");
    assert!(served[0].refused > 3_000, "{}", served[0].refused);
}

#[test]
fn equal_flows_get_equal_shares() {
    let flows: Vec<_> = (0..20).map(|_| Flow { every: MS * 5, weight: 1, most: 6 }).collect();
    let served = simulate(&queue(4), &flows, Duration::from_secs(30));
    let shares: Vec<_> = served.iter().map(|flow| flow.times.len() as f64).collect();
    let index = jain(&shares);
    assert!(index > 0.95, "{index} {shares:?}");
    let all: f64 = shares.iter().sum();
    assert!(all > 0.95 * 400.0 * 30.0, "{all}: seats were empty");
}

#[test]
fn flow_of_more_weight_gets_more() {
    let flow = |weight| Flow { every: MS * 2, weight, most: 24 };
    let served = simulate(&queue(4), &[flow(1), flow(3)], Duration::from_secs(30));
    let [one, three] = [0, 1].map(|flow: usize| served[flow].times.len() as f64);
    assert!((2.0..4.0).contains(&(three / one)), "{one} {three}");
}
