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
        ("one's own", vec![(0, Some(record("me", 1)), renewed)]),
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
        ("removed", vec![(0, Some(record("other", 1)), None), (1, None, first)]),
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
        let Timing { lease, renew_within, retry, .. } = timing;
        assert!(renew_within < timing.quiet_after() && timing.quiet_after() < lease, "{timing:?}");
        // It is renewed twice before it has to stop.
        assert!(retry * 24 / 10 < renew_within, "{timing:?}");
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
        (160, None, Some((4, 160))),
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

#[test]
fn candidate_looks_again_when_the_lease_is_free() {
    let mut election = Election::new("me".to_owned(), TIMING);
    assert_eq!(election.free_in(seconds(0)), None);
    election.observe(Some(&record("other", 1)), seconds(1));
    assert_eq!([4, 16, 99].map(|at| election.free_in(seconds(at))), [12, 0, 0].map(|left| Some(seconds(left))));
    election.observe(Some(&record("me", 2)), seconds(3));
    assert_eq!(election.free_in(seconds(3)), None);
}

/// A store that refuses a write which is based on an old reading.
#[derive(Default)]
struct Store {
    record: Option<Record>,
    version: u64,
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

/// A candidate and what it is about to do.
struct Candidate {
    name: String,
    timing: Timing,
    election: Election,
    pending: Option<(Claim, u64, Duration)>,
    /// The last moment at which it led.
    led: Option<Moment>,
}

impl Candidate {
    fn new(name: &str, timing: Timing) -> Self {
        let election = Election::new(name.to_owned(), timing);
        Self { name: name.to_owned(), timing, election, pending: None, led: None }
    }

    /// One step: reads, or sends what it decided on after the last reading. `is_heard`: whether the answer arrives.
    fn step(&mut self, store: &mut Store, now: Duration, is_heard: bool) {
        match self.pending.take() {
            None => {
                if is_heard && let Some(claim) = self.election.observe(store.record.as_ref(), now) {
                    self.pending = Some((claim, store.version, now));
                }
            }
            Some((claim, base, sent)) => {
                let written = Record {
                    holder: self.name.clone(),
                    lease: seconds(self.timing.lease.as_secs()),
                    renewal: format!("{sent:?}"),
                    transitions: claim.transitions,
                };
                // Sent when it was decided, and arrives now: the slowest that a network can be.
                if store.write(base, written) && is_heard {
                    self.election.written(sent);
                }
            }
        }
    }

    fn leads(&self, now: Duration) -> bool {
        self.election.tenure().is_some_and(|tenure| now < tenure.until)
    }

    /// It led until that moment at most.
    fn note(&mut self, now: Duration) {
        let end = self.election.tenure().map(|tenure| tenure.until.min(now));
        self.led = self.led.max(end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any delays, lost answers and frozen candidates.
    #[test]
    fn there_are_never_two_leaders(
        // Parts of a hundred of the time for which a leader goes on.
        steps in proptest::collection::vec((0_usize..3, 0_u32..60, any::<bool>(), 0_u8..40), 1..400),
        timing in (0_usize..2).prop_map(|at| BOTH[at]),
    ) {
        let mut store = Store::default();
        let mut candidates = ["a", "b", "c"].map(|name| Candidate::new(name, timing));
        let mut now = Duration::ZERO;
        for (who, pause, is_heard, fate) in steps {
            let pause = timing.renew_within * pause / 100;
            now += if fate == 0 { pause * 10 } else { pause };
            candidates.iter_mut().for_each(|one| one.note(now));
            candidates[who].step(&mut store, now, is_heard || fate > 20);
            if fate == 1 {
                // Given up in order.
                store.record = store.record.take().map(|record| Record { holder: String::new(), ..record });
                store.version += 1;
                candidates.iter_mut().for_each(|one| one.election.resign());
            }
            let leaders: Vec<&str> = candidates.iter().filter(|one| one.leads(now)).map(|one| one.name.as_str()).collect();
            prop_assert!(leaders.len() <= 1, "{leaders:?} at {now:?}");
            // A leader is alone, in the present and since the moment that it says.
            for one in candidates.iter().filter(|one| one.leads(now)) {
                let since = one.election.tenure().unwrap().alone_since;
                let others = candidates.iter().filter(|other| other.name != one.name);
                prop_assert!(others.filter_map(|other| other.led).all(|led| led <= since), "{} at {now:?}", one.name);
            }
        }
    }
}

#[test]
fn one_of_several_leads_soon_and_again_after_its_end() {
    let mut store = Store::default();
    let mut candidates = ["a", "b"].map(|name| Candidate::new(name, TIMING));
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
