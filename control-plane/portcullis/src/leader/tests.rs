use std::time::Duration;

use proptest::prelude::*;

use super::{Claim, Election, Moment, Record, Tenure, Timing};

const TIMING: Timing = Timing::CONTROLLER;
const BOTH: [Timing; 2] = [Timing::CONTROLLER, Timing::LIMITS];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn record(holder: &str, renewal: u32) -> Record {
    Record { holder: holder.to_owned(), lease: TIMING.lease, renewal: renewal.to_string(), transitions: 4 }
}

#[test]
fn lease_is_taken_when_it_is_free_and_not_before() {
    let taken = Some(Claim { transitions: 5, is_new: true });
    let first = Some(Claim { transitions: 0, is_new: true });
    let renewed = Some(Claim { transitions: 4, is_new: false });
    let long = Record { lease: seconds(60), ..record("other", 1) };
    // The content that is read at each second, and the content that is written.
    type Step = (u64, Option<Record>, Option<Claim>);
    let rows: Vec<(&str, Vec<Step>)> = vec![
        ("there is none", vec![(0, None, first.clone())]),
        ("nobody's", vec![(0, Some(record("", 1)), taken.clone())]),
        ("one's own", vec![(0, Some(record("me", 1)), renewed.clone())]),
        (
            "a silent holder's",
            vec![
                (5, Some(record("other", 1)), None),
                (19, Some(record("other", 1)), None),
                (20, Some(record("other", 1)), taken.clone()),
            ],
        ),
        (
            "a holder's that renews",
            vec![
                (0, Some(record("other", 1)), None),
                (14, Some(record("other", 2)), None),
                (28, Some(record("other", 2)), None),
                (29, Some(record("other", 2)), taken.clone()),
            ],
        ),
        ("another holder's", vec![(0, Some(record("a", 1)), None), (15, Some(record("b", 1)), None)]),
        ("a long one", vec![(0, Some(long.clone()), None), (59, Some(long.clone()), None), (60, Some(long), taken)]),
        (
            "one that vanished",
            vec![
                (0, Some(record("other", 1)), None),
                (14, None, None),
                (28, None, None),
                (29, None, first.clone()),
                (30, Some(record("other", 1)), None),
            ],
        ),
        (
            "one's own that vanished long ago",
            vec![(0, Some(record("me", 1)), renewed), (90, None, None), (105, None, first)],
        ),
    ];
    for (what, steps) in rows {
        let mut election = Election::new("me".to_owned(), TIMING);
        for (at, read, wanted) in steps {
            assert_eq!(election.observe(read.as_ref(), seconds(at)), wanted, "{what} at {at} s");
        }
    }
}

#[test]
fn leader_ends_with_its_last_renewal_or_when_another_leads() {
    let mut election = Election::new("me".to_owned(), TIMING);
    let until = |election: &Election| election.tenure().map(|tenure| tenure.until);
    assert_eq!(election.tenure(), None);
    election.written(seconds(3));
    assert_eq!(until(&election), Some(seconds(13)));
    election.observe(Some(&record("me", 1)), seconds(4));
    assert_eq!(until(&election), Some(seconds(13)), "reading renews nothing");
    election.observe(Some(&record("other", 1)), seconds(5));
    assert_eq!(election.tenure(), None);
}

#[test]
fn leader_stops_before_another_one_may_start() {
    for timing in BOTH {
        let Timing { lease, renew_within, retry, request } = timing;
        assert!(renew_within < timing.quiet_after() && timing.quiet_after() < lease, "{timing:?}");
        // It is renewed twice before it has to stop, or one write without an answer is read and counts.
        assert!(retry * 24 / 10 < renew_within && request * 2 < renew_within, "{timing:?}");
    }
}

#[test]
fn tenure_has_a_new_term_if_another_may_have_led() {
    let mut election = Election::new("me".to_owned(), TIMING);
    let other = |renewal| record("other", renewal);
    let free = Record { lease: seconds(1), ..record("", 9) };
    let long = Record { lease: seconds(60), ..record("other", 8) };
    let own = |second| record("me", second);
    // The content that is read at a second and the write after it, and the term and the second since when the candidate is alone.
    type Step = (u64, Option<Record>, Option<(u64, u64)>);
    let steps: [Step; 12] = [
        (0, None, Some((1, 0))),
        (2, Some(own(1)), Some((1, 0))),
        // Renewed late: no other had it.
        (90, Some(own(2)), Some((1, 0))),
        (100, Some(other(1)), None),
        (110, Some(other(2)), None),
        (124, Some(other(2)), None),
        // The other one's last renewal was seen at 110 s, and it goes on for ten seconds.
        (140, Some(other(2)), Some((2, 120))),
        (150, Some(free), Some((3, 150))),
        // The one that leads sees its Lease vanish.
        (159, None, Some((4, 159))),
        (170, Some(long.clone()), None),
        // It may go on until the end of its long lease.
        (230, Some(long), Some((5, 230))),
        (240, Some(own(3)), Some((5, 230))),
    ];
    for (at, read, wanted) in steps {
        if election.observe(read.as_ref(), seconds(at)).is_some() {
            election.written(seconds(at));
        }
        let tenure = election.tenure().map(|tenure| (tenure.term, tenure.alone_since.as_secs()));
        assert_eq!(tenure, wanted, "at {at} s");
    }
    // A write of which no answer came: the candidate reads later that it has the Lease.
    election.observe(Some(&record("", 10)), seconds(250));
    election.observe(Some(&own(4)), seconds(260));
    election.written(seconds(260));
    let tenure = Tenure { term: 6, until: seconds(270), alone_since: seconds(250) };
    assert_eq!(election.tenure(), Some(tenure));
}

/// A candidate that took the Lease at no second, and sent a renewal at second 3 without an answer.
fn unanswered() -> Election {
    let mut election = Election::new("me".to_owned(), TIMING);
    election.observe(None, seconds(0));
    election.written(seconds(0));
    election.sends("3".to_owned(), seconds(3));
    election
}

#[test]
fn renewal_without_an_answer_counts_once_it_is_read() {
    let term = |election: &Election| election.tenure().map(|tenure| (tenure.term, tenure.until.as_secs()));
    let read = |holder, renewal| {
        let mut election = unanswered();
        // Neither has a later one an answer, nor was it in the Lease by then.
        election.sends("5".to_owned(), seconds(5));
        election.observe(Some(&record(holder, renewal)), seconds(6));
        term(&election)
    };
    assert_eq!(read("me", 3), Some((1, 13)), "from the moment at which it was sent");
    assert_eq!(read("me", 5), Some((1, 15)));
    assert_eq!(read("me", 2), Some((1, 10)), "an older one");
    assert_eq!(read("other", 3), None);
    let mut election = unanswered();
    election.resign();
    election.observe(Some(&record("me", 3)), seconds(6));
    assert_eq!(term(&election), None, "a candidate that gave up does not lead by what it wrote before");
    let mut election = unanswered();
    (4..90).for_each(|at| election.sends(at.to_string(), seconds(at)));
    assert!(election.unanswered.len() <= 10, "{}", election.unanswered.len());
}

#[test]
fn leader_whose_write_is_refused_leads_no_more() {
    let mut election = unanswered();
    election.written(seconds(3));
    election.sends("5".to_owned(), seconds(5));
    election.refused(seconds(5));
    assert_eq!(election.tenure(), None, "another one wrote");
    let mut election = unanswered();
    election.sends("5".to_owned(), seconds(5));
    election.refused(seconds(5));
    assert!(election.tenure().is_some(), "the write without an answer may be why");
    election.observe(Some(&record("me", 3)), seconds(6));
    assert_eq!(election.tenure().map(|tenure| tenure.until), Some(seconds(13)));
}

#[test]
fn candidate_looks_again_when_the_lease_is_free() {
    let mut election = Election::new("me".to_owned(), TIMING);
    assert_eq!(election.free_in(seconds(0)), None);
    election.observe(Some(&record("other", 1)), seconds(1));
    assert_eq!([4, 16, 99].map(|at| election.free_in(seconds(at))), [12, 0, 0].map(|left| Some(seconds(left))));
    election.observe(Some(&record("me", 2)), seconds(3));
    assert_eq!(election.free_in(seconds(3)), None);
    election.observe(None, seconds(9));
    assert_eq!(election.free_in(seconds(10)), Some(seconds(14)));
}

/// A store that refuses a write which is based on an old reading.
#[derive(Default)]
struct Store {
    record: Option<Record>,
    version: u64,
    /// A write that is on its way while its candidate waits for it no more.
    late: Option<(u64, Record)>,
    was_deleted: bool,
}

impl Store {
    fn write(&mut self, base: u64, record: Record) -> bool {
        let fits = base == self.version;
        if fits {
            self.record = Some(record);
            self.version += 1;
        }
        fits
    }
}

/// A write that was sent at a moment of the candidate's own clock, after the version that it knew.
struct Write {
    claim: Claim,
    base: u64,
    sent: Moment,
    /// Whether it is a renewal without a reading.
    is_held: bool,
}

/// A candidate and what it is about to do.
struct Candidate {
    name: String,
    timing: Timing,
    /// The speed of its clock, in parts of a hundred.
    clock: u32,
    election: Election,
    /// The version and content that it wrote last, if it got the answer.
    held: Option<(u64, Record)>,
    pending: Option<Write>,
    /// The last moment at which it led.
    led: Option<Duration>,
}

impl Candidate {
    fn new(name: &str, timing: Timing, clock: u32) -> Self {
        let election = Election::new(name.to_owned(), timing);
        Self { name: name.to_owned(), timing, clock, election, held: None, pending: None, led: None }
    }

    /// Its clock at that moment.
    fn time(&self, now: Duration) -> Moment {
        now * self.clock / 100
    }

    fn written(&self, write: &Write) -> Record {
        Record {
            holder: self.name.clone(),
            lease: self.timing.lease,
            renewal: format!("{:?}", write.sent),
            transitions: write.claim.transitions,
        }
    }

    /// One step: reads, or sends what it decided on after the last reading or writing. `is_heard`: whether the answer arrives.
    fn step(&mut self, store: &mut Store, now: Duration, is_heard: bool) {
        let Some(write) = self.pending.take() else { return self.decide(store, now, is_heard) };
        // Sent when it was decided, and arrives now: the slowest that a network can be.
        let written = self.written(&write);
        let is_there = store.write(write.base, written.clone());
        match (is_heard, is_there) {
            (true, true) => {
                self.election.written(write.sent);
                self.held = Some((store.version, written));
            }
            (true, false) => {
                self.election.refused(write.sent);
                if write.is_held {
                    assert!(self.election.tenure().is_none(), "{} leads after a refusal", self.name);
                }
            }
            (false, _) => {}
        }
    }

    fn decide(&mut self, store: &Store, now: Duration, is_heard: bool) {
        let sent = self.time(now);
        let held = self.held.take();
        let is_held = held.is_some();
        let (base, read) = match held {
            Some((version, record)) => (version, Some(record)),
            None if is_heard => (store.version, store.record.clone()),
            None => return,
        };
        if let Some(claim) = self.election.observe(read.as_ref(), sent) {
            let write = Write { claim, base, sent, is_held };
            self.election.sends(self.written(&write).renewal, sent);
            self.pending = Some(write);
        }
    }

    fn resign(&mut self) {
        self.held = None;
        self.election.resign();
    }

    fn leads(&self, now: Duration) -> bool {
        self.election.tenure().is_some_and(|tenure| self.time(now) < tenure.until)
    }

    /// It led until that moment at most.
    fn note(&mut self, now: Duration) {
        let end = self.election.tenure().map(|tenure| (tenure.until * 100 / self.clock).min(now));
        self.led = self.led.max(end);
    }
}

/// An event beside a step, by a number.
fn happens(fate: u8, at: usize, store: &mut Store, candidates: &mut [Candidate; 3]) {
    match fate {
        1 => {
            // Given up in order.
            store.record = store.record.take().map(|record| Record { holder: String::new(), ..record });
            store.version += 1;
            candidates.iter_mut().for_each(Candidate::resign);
        }
        // Its candidate waits no more for a write.
        2..=4 => {
            let one = &mut candidates[at];
            if let Some(write) = one.pending.take() {
                store.late = Some((write.base, one.written(&write)));
            }
        }
        5..=7 => {
            if let Some((base, record)) = store.late.take() {
                store.write(base, record);
            }
        }
        // Deleted. A candidate that never saw the Lease cannot know that there was one, nor one of two that were deleted meanwhile.
        8 if !store.was_deleted && candidates.iter().all(|one| one.election.seen.is_some()) => {
            (store.record, store.was_deleted) = (None, true);
            store.version += 1;
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any delays, lost answers, late writes and frozen candidates, a Lease that is deleted, and clocks that are two percent askew.
    #[test]
    fn there_are_never_two_leaders(
        // Parts of a hundred of the time for which a leader goes on.
        steps in proptest::collection::vec((0_usize..3, 0_u32..60, any::<bool>(), 0_u8..40), 1..400),
        timing in (0_usize..2).prop_map(|at| BOTH[at]),
        clocks in [98_u32..=102, 98_u32..=102, 98_u32..=102],
    ) {
        let mut store = Store::default();
        let mut candidates = [0, 1, 2].map(|at| Candidate::new(["a", "b", "c"][at], timing, clocks[at]));
        let mut now = Duration::ZERO;
        for (who, pause, is_heard, fate) in steps {
            let pause = timing.renew_within * pause / 100;
            now += if fate == 0 { pause * 10 } else { pause };
            candidates.iter_mut().for_each(|one| one.note(now));
            candidates[who].step(&mut store, now, is_heard || fate > 20);
            happens(fate, who, &mut store, &mut candidates);
            let leaders: Vec<&str> = candidates.iter().filter(|one| one.leads(now)).map(|one| one.name.as_str()).collect();
            prop_assert!(leaders.len() <= 1, "{leaders:?} at {now:?}");
            // A leader is alone, in the present and since the moment that it says.
            for one in candidates.iter().filter(|one| one.leads(now)) {
                let since = one.election.tenure().unwrap().alone_since;
                let mut others = candidates.iter().filter(|other| other.name != one.name).filter_map(|other| other.led);
                prop_assert!(others.all(|led| one.time(led) <= since), "{} at {now:?}", one.name);
            }
        }
    }
}

#[test]
fn one_of_several_leads_soon_and_again_after_its_end() {
    let mut store = Store::default();
    let mut candidates = ["a", "b"].map(|name| Candidate::new(name, TIMING, 100));
    let mut history = Vec::new();
    for second in 0..60 {
        let now = seconds(second);
        for candidate in &mut candidates {
            let is_dead = candidate.name == "a" && second > 20;
            if !is_dead {
                candidate.step(&mut store, now, true);
            }
        }
        history.push(candidates.iter().filter(|one| one.leads(now)).map(|one| one.name.clone()).collect::<String>());
    }
    assert_eq!((history[5].as_str(), history[20].as_str(), history[59].as_str()), ("a", "a", "b"));
    assert_eq!(history.iter().filter(|leaders| leaders.len() > 1).count(), 0);
    assert!(history[33..36].contains(&String::new()), "nobody leads before the lease has run out: {history:?}");
}
