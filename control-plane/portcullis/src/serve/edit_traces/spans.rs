//! From an edit that is over to the spans of its trace.

use std::time::{SystemTime, UNIX_EPOCH};

use super::otlp::{ERROR, INTERNAL, KeyValue, Span, Status, text};
use super::tracker::{EditOutcome, Finished};

/// The name of the first span of an edit's trace.
const EDIT: &str = "edit";
/// The name of the spans of acknowledgements.
const ACKNOWLEDGE: &str = "acknowledge";

/// The spans of an edit: one about the whole, and below it one for each phase and each gateway. `random` gives the ids.
pub(super) fn spans(finished: &Finished, mut random: impl FnMut() -> u64) -> Vec<Span> {
    let trace: Vec<u8> = [id(&mut random), id(&mut random)].concat();
    let whole = id(&mut random);
    let Finished { edit, outcome, end } = finished;
    let mut span = |name: &str, (start, end): (SystemTime, SystemTime), attributes: Vec<KeyValue>| Span {
        trace_id: trace.clone(),
        span_id: id(&mut random),
        parent_span_id: whole.clone(),
        name: name.to_owned(),
        kind: INTERNAL,
        start_time_unix_nano: nanoseconds(start),
        end_time_unix_nano: nanoseconds(end.max(start)),
        attributes,
        status: None,
    };
    let mut all: Vec<_> =
        edit.phases.iter().map(|phase| span(phase.name, (phase.start, phase.end), Vec::new())).collect();
    let gateway = |name: &String| vec![text("portcullis.gateway", name.as_str())];
    for (name, at) in &edit.acknowledged {
        all.push(span(ACKNOWLEDGE, (edit.published, *at), gateway(name)));
    }
    for name in &edit.waiting {
        let unanswered = span(ACKNOWLEDGE, (edit.published, *end), gateway(name));
        all.push(Span { status: Some(Status { code: ERROR }), ..unanswered });
    }
    let mut attributes: Vec<_> = edit.attributes.iter().map(|(key, value)| text(key, value.as_str())).collect();
    attributes.push(text("portcullis.outcome", outcome.as_str()));
    let first = Span {
        span_id: whole.clone(),
        parent_span_id: Vec::new(),
        status: (*outcome == EditOutcome::Incomplete).then_some(Status { code: ERROR }),
        ..span(EDIT, (edit.start, *end), attributes)
    };
    all.insert(0, first);
    all
}

/// Eight bytes that are not all zero, which would be no id.
fn id(random: &mut impl FnMut() -> u64) -> Vec<u8> {
    random().max(1).to_be_bytes().to_vec()
}

fn nanoseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tracker::{Edit, Phase};
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn trace_holds_phases_and_gateways_below_the_edit() {
        let edit = Edit {
            start: at(1),
            published: at(4),
            phases: vec![
                Phase { name: "read", start: at(1), end: at(2) },
                Phase { name: "translate", start: at(2), end: at(4) },
            ],
            versions: ["v".to_owned()].into(),
            waiting: ["b".to_owned()].into(),
            acknowledged: [("a".to_owned(), at(6))].into(),
            attributes: vec![("portcullis.snapshot", "v".to_owned())],
        };
        let mut next = 0;
        let counter = || {
            next += 1;
            next - 1
        };
        let all = spans(&Finished { edit, outcome: EditOutcome::Incomplete, end: at(64) }, counter);
        let times = |span: &Span| [span.start_time_unix_nano, span.end_time_unix_nano].map(|one| one / 1_000_000_000);
        let told: Vec<_> = all.iter().map(|span| (span.name.as_str(), times(span), span.status.is_some())).collect();
        assert_eq!(
            told,
            [
                ("edit", [1, 64], true),
                ("read", [1, 2], false),
                ("translate", [2, 4], false),
                ("acknowledge", [4, 6], false),
                ("acknowledge", [4, 64], true)
            ]
        );
        let (first, below) = all.split_first().unwrap();
        assert!(first.parent_span_id.is_empty() && first.trace_id.len() == 16);
        assert!(below.iter().all(|span| span.parent_span_id == first.span_id && span.trace_id == first.trace_id));
        let mut ids: Vec<_> = all.iter().map(|span| span.span_id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert!(ids.len() == all.len() && ids.iter().all(|id| id.len() == 8 && id.iter().any(|byte| *byte != 0)));
        let attributes: Vec<_> = first.attributes.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(attributes, ["portcullis.snapshot", "portcullis.outcome"]);
    }
}
