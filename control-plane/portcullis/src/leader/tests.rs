use std::time::Duration;

use proptest::prelude::*;

use super::{Claim, Election, Record, Timing};

const TIMING: Timing = Timing::DEFAULT;

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
    assert_eq!(election.leads_until(), None);
    election.written(seconds(3));
    assert_eq!(election.leads_until(), Some(seconds(13)));
    election.observe(Some(&record("me", 1)), seconds(4));
    assert_eq!(election.leads_until(), Some(seconds(13)), "reading renews nothing");
    election.observe(Some(&record("other", 1)), seconds(5));
    assert_eq!(election.leads_until(), None);
    assert!(TIMING.renew_within + TIMING.retry < TIMING.lease);
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
    election: Election,
    pending: Option<(Claim, u64, Duration)>,
}

impl Candidate {
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
                    lease: TIMING.lease,
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
        self.election.leads_until().is_some_and(|until| now < until)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Any delays, lost answers and frozen candidates.
    #[test]
    fn there_are_never_two_leaders(
        steps in proptest::collection::vec((0_usize..3, 0_u64..6_000, any::<bool>(), 0_u8..40), 1..400),
    ) {
        let mut store = Store::default();
        let mut candidates: Vec<Candidate> = ["a", "b", "c"]
            .map(|name| Candidate { name: name.into(), election: Election::new(name.into(), TIMING), pending: None })
            .into();
        let mut now = Duration::ZERO;
        let mut led = [false; 3];
        for (who, pause, is_heard, fate) in steps {
            now += Duration::from_millis(if fate == 0 { pause * 10 } else { pause });
            candidates[who].step(&mut store, now, is_heard || fate > 20);
            if fate == 1 {
                // Given up in order.
                store.record = store.record.take().map(|record| Record { holder: String::new(), ..record });
                store.version += 1;
                candidates.iter_mut().for_each(|one| one.election.leads_until = None);
            }
            let leaders: Vec<&str> = candidates.iter().filter(|one| one.leads(now)).map(|one| one.name.as_str()).collect();
            prop_assert!(leaders.len() <= 1, "{leaders:?} at {now:?}");
            led.iter_mut().zip(&candidates).for_each(|(led, one)| *led |= one.leads(now));
        }
    }
}

#[test]
fn one_of_several_leads_soon_and_again_after_its_end() {
    let mut store = Store::default();
    let mut candidates: Vec<Candidate> = ["a", "b"]
        .map(|name| Candidate { name: name.into(), election: Election::new(name.into(), TIMING), pending: None })
        .into();
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
