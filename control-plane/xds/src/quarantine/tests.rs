//! One resource `l` of parts: whatever is bad is found, and nothing that was in service is taken out of it on the way.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::hash::Hash;
use crate::wait::Wait;

/// Part and content. A content with `!` is bad; `x@` is bad unless some other part is `x`; the whole itself is `=`.
type Parts<'a> = &'a [(&'a str, &'a str)];

fn offer(parts: Parts<'_>) -> Offer {
    let mut pieces = Pieces::new();
    let mut hash = Hash::default();
    for (part, content) in parts {
        let key = Key { resource: "l".to_owned(), part: (*part != "=").then(|| (*part).to_owned()) };
        let instead = key.part.is_some().then(|| Bytes::from("closed"));
        pieces.insert(key, Piece::new(Bytes::copy_from_slice(content.as_bytes()), None, instead));
        hash.add(part);
        hash.add(content);
    }
    Offer::wanted(&hash.finish(), pieces)
}

fn show(offer: &Offer) -> String {
    let text = |piece: &Piece| String::from_utf8_lossy(piece.body()).into_owned();
    let one = |(key, piece): (&Key, &Piece)| format!("{}:{}", key.part.as_deref().unwrap_or("="), text(piece));
    offer.pieces.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Why Envoy refuses an offer.
fn error(offer: &Offer) -> Option<String> {
    let all = show(offer);
    let bad = |part: &&str| {
        part.contains('!')
            || part.split_once('@').is_some_and(|(need, _)| {
                let need = need.split(':').next_back().unwrap_or_default().to_owned();
                !all.split(' ').any(|other| other.ends_with(&format!(":{need}")))
            })
    };
    all.split(' ').find(bad).map(|_| "?".to_owned())
}

/// Offers until nothing is left to say; returns everything that was offered, refusals with a `!` before them.
fn settle(quarantine: &mut Quarantine) -> Vec<String> {
    let mut said = Vec::new();
    while let Some(offer) = quarantine.next(&Hold::default()) {
        assert!(said.len() < 200, "no end: {said:#?}");
        match error(&offer) {
            Some(message) => {
                said.push(format!("! {}", show(&offer)));
                quarantine.on_nack(&offer, &message);
            }
            None => {
                said.push(show(&offer));
                quarantine.on_ack(offer);
            }
        }
    }
    said
}

fn settled(parts: Parts<'_>) -> Quarantine {
    let mut quarantine = Quarantine::default();
    quarantine.aim(offer(parts));
    settle(&mut quarantine);
    quarantine
}

fn bad(quarantine: &Quarantine) -> Vec<&str> {
    quarantine.refused().map(|(key, _)| key.name()).collect()
}

#[test]
fn what_is_good_is_offered_once() {
    let mut quarantine = Quarantine::default();
    quarantine.aim(offer(&[("=", "1"), ("a", "1")]));
    assert_eq!(settle(&mut quarantine), ["=:1 a:1"]);
    assert!(quarantine.is_in_sync());
    quarantine.aim(offer(&[("=", "1"), ("b", "1")]));
    assert_eq!(settle(&mut quarantine), ["=:1 b:1"]);
}

#[test]
fn an_edit_that_is_bad_leaves_what_was_accepted() {
    let mut quarantine = settled(&[("=", "1"), ("a", "1"), ("b", "1")]);
    quarantine.aim(offer(&[("=", "1"), ("a", "2!"), ("b", "1")]));
    assert_eq!(settle(&mut quarantine), ["! =:1 a:2! b:1"]);
    assert_eq!(bad(&quarantine), ["a"]);
    assert!(!quarantine.is_in_sync());
    quarantine.aim(offer(&[("=", "1"), ("a", "2!"), ("b", "2")]));
    assert_eq!(settle(&mut quarantine), ["=:1 a:1 b:2"], "the rest goes on");
    quarantine.aim(offer(&[("=", "1"), ("a", "3"), ("b", "2")]));
    assert_eq!(settle(&mut quarantine), ["=:1 a:3 b:2"]);
    assert!(quarantine.is_in_sync());
}

#[test]
fn a_new_part_that_is_bad_is_replaced_by_what_stands_instead() {
    let mut quarantine = settled(&[("=", "1"), ("a", "1")]);
    quarantine.aim(offer(&[("=", "1"), ("a", "2"), ("b", "1!"), ("c", "1")]));
    let said = settle(&mut quarantine);
    assert_eq!(said.last().unwrap(), "=:1 a:2 b:closed c:1", "{said:#?}");
    assert_eq!(bad(&quarantine), ["b"]);
}

#[test]
fn at_the_first_time_the_good_ones_are_served_whoever_is_bad() {
    let said = |parts| {
        let mut quarantine = Quarantine::default();
        quarantine.aim(offer(parts));
        (settle(&mut quarantine), bad(&quarantine).join(" "))
    };
    let (offers, refused) = said(&[("=", "1"), ("a", "1"), ("b", "1!"), ("c", "1"), ("d", "1")]);
    assert_eq!((offers.last().unwrap().as_str(), refused.as_str()), ("=:1 a:1 b:closed c:1 d:1", "b"));
    let (offers, refused) = said(&[("=", "1!"), ("a", "1"), ("b", "1")]);
    assert_eq!((offers.iter().filter(|offer| !offer.starts_with('!')).count(), refused.as_str()), (0, "l"));
}

#[test]
fn whom_the_error_names_is_tried_last() {
    let mut quarantine = settled(&[("=", "1")]);
    quarantine.aim(offer(&[("=", "1"), ("aa", "1"), ("bb", "1!"), ("cc", "1"), ("dd", "1")]));
    let first = quarantine.next(&Hold::default()).unwrap();
    quarantine.on_nack(&first, "error in i/-/bb");
    assert_eq!(show(&quarantine.next(&Hold::default()).unwrap()), "=:1 aa:1 cc:1 dd:1");
}

#[test]
fn two_that_depend_on_each_other_are_not_parted() {
    let mut quarantine = settled(&[("=", "1"), ("a", "x"), ("b", "1")]);
    // Of the two halves neither is good without the other.
    quarantine.aim(offer(&[("=", "1"), ("a", "y"), ("b", "y@"), ("c", "1!"), ("d", "1")]));
    let said = settle(&mut quarantine);
    assert_eq!(said.last().unwrap(), "=:1 a:y b:y@ c:closed d:1", "{said:#?}");
    assert_eq!(bad(&quarantine), ["c"]);
}

#[test]
fn another_control_plane_learns_from_the_version_what_was_refused() {
    let target = offer(&[("=", "1"), ("a", "1"), ("b", "1!")]);
    let mut first = Quarantine::default();
    first.aim(target.clone());
    settle(&mut first);
    let mut second = Quarantine::default();
    second.aim(target.clone());
    second.resume(&first.accepted.version);
    assert_eq!(settle(&mut second), [""; 0]);
    assert_eq!(bad(&second), ["b"]);
    let mut third = Quarantine::default();
    third.aim(target);
    third.resume("something else");
    assert_eq!(
        settle(&mut third),
        ["! =:1 a:1 b:1!"],
        "nothing that may be in service is left out to find the bad one"
    );
    assert!(third.refusals().any(|(key, _)| key.is_none()));
}

#[test]
fn what_has_to_wait_is_held_as_it_was_accepted() {
    let mut quarantine = settled(&[("=", "1"), ("a", "1"), ("b", "1")]);
    quarantine.aim(offer(&[("=", "1"), ("a", "2"), ("c", "1")]));
    let closed = Hold { updates: Wait::Everybody, removals: Wait::Everybody };
    assert!(quarantine.next(&closed).is_none());
    let no_removals = Hold { removals: Wait::Everybody, ..Hold::default() };
    assert_eq!(show(&quarantine.next(&no_removals).unwrap()), "=:1 a:2 b:1 c:1");
    assert_eq!(show(&quarantine.next(&Hold::default()).unwrap()), "=:1 a:2 c:1");
}

fn parts() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((0..6_u8, 0..5_u8), 0..6)
}

proptest! {
    /// Contents 0 and 1 are bad. In the end every good part is served as wanted, and a part that was in service is never
    /// without service.
    #[test]
    fn the_good_ones_are_served_and_nobody_is_interrupted(sets in proptest::collection::vec(parts(), 1..6)) {
        let mut quarantine = Quarantine::default();
        for set in sets {
            let texts: BTreeMap<String, String> = set.iter().map(|(part, content)| {
                (format!("p{part}"), format!("{content}{}", if *content < 2 { "!" } else { "" }))
            }).collect();
            let mut wanted = vec![("=", "1")];
            wanted.extend(texts.iter().map(|(part, content)| (part.as_str(), content.as_str())));
            quarantine.aim(offer(&wanted));
            let mut steps = 0;
            while let Some(offer) = quarantine.next(&Hold::default()) {
                steps += 1;
                prop_assert!(steps < 100);
                if let Some(message) = error(&offer) {
                    quarantine.on_nack(&offer, &message);
                    continue;
                }
                for (key, before) in &quarantine.accepted.pieces {
                    let stays = offer.pieces.contains_key(key) || !quarantine.target.pieces.contains_key(key);
                    prop_assert!(stays, "{key:?} was {before:?}");
                }
                quarantine.on_ack(offer);
            }
            for (part, content) in &texts {
                let key = Key { resource: "l".to_owned(), part: Some(part.clone()) };
                let has = String::from_utf8_lossy(quarantine.accepted.pieces[&key].body()).into_owned();
                prop_assert!(content.contains('!') && !has.contains('!') || has == *content);
            }
        }
    }
}
