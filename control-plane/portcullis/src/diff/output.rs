//! The report as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::cluster_diff::ClusterDiff;
use super::endings::Ending;
use super::fields::ChangedField;
use super::objects::{ChangedObject, ObjectChange};
use super::report::DiffReport;
use super::verdict::Decider;
use crate::display_text::{self, one_line};

/// The report for people.
pub(super) fn text(report: &DiffReport, show: usize) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for (names, word) in
        [(&report.removed, "only among the old objects"), (&report.added, "only among the new objects")]
    {
        for name in names {
            let _ = writeln!(text, "{}: {word}", one_line(name));
        }
    }
    if !report.settings.is_empty() {
        text.push_str("GatewaySettings\n");
        report.settings.iter().for_each(|field| write_field(&mut text, field));
    }
    report.objects.iter().for_each(|object| write_object(&mut text, object));
    for cluster in &report.clusters {
        write_cluster(&mut text, cluster, show);
    }
    text
}

fn write_object(text: &mut String, object: &ChangedObject) {
    let title = format!("{} {}", object.kind, one_line(&object.name));
    let _ = match &object.change {
        ObjectChange::Removed => writeln!(text, "{title}: only among the old objects"),
        ObjectChange::Added => writeln!(text, "{title}: only among the new objects"),
        ObjectChange::Fields(fields) => {
            let _ = writeln!(text, "{title}");
            fields.iter().for_each(|field| write_field(text, field));
            Ok(())
        }
    };
}

fn write_cluster(text: &mut String, cluster: &ClusterDiff, show: usize) {
    let (differences, uncompared) = (&cluster.findings.differences, &cluster.findings.uncompared);
    let name = one_line(&cluster.name);
    let _ = match differences.len() {
        0 if uncompared.is_empty() && cluster.findings.beside.is_empty() => {
            writeln!(text, "{name}: no request is judged differently")
        }
        0 => writeln!(
            text,
            "{name}: access lists and policies judge no request differently, as far as they were compared"
        ),
        count => writeln!(text, "{name}: requests are judged differently in {count} ways"),
    };
    for difference in differences.iter().take(show) {
        let _ = writeln!(text, "\n  then: {}", words(&difference.then));
        let _ = writeln!(text, "  now:  {}", words(&difference.now));
        let _ = writeln!(text, "  {}", difference.example.call(&cluster.host).shell("FILES"));
    }
    let hidden = differences.len().saturating_sub(show);
    if hidden > 0 {
        let _ = writeln!(text, "\n  and {hidden} further ways");
    }
    if !uncompared.is_empty() {
        text.push_str("\n  not compared, because it takes too long: requests of\n");
        for one in uncompared.iter().take(show) {
            let _ = writeln!(text, "    then: {}\n    now:  {}", words(&one.then), words(&one.now));
        }
        let hidden = uncompared.len().saturating_sub(show);
        if hidden > 0 {
            let _ = writeln!(text, "    and {hidden} further ones");
        }
    }
    if !cluster.findings.beside.is_empty() {
        text.push_str("\n  not compared, because something else decides as well, and differs\n");
        for requests in &cluster.findings.beside {
            let _ = writeln!(text, "    {requests}");
        }
    }
    if !cluster.fields.is_empty() {
        text.push_str("  fields\n");
        cluster.fields.iter().for_each(|field| write_field(text, field));
    }
    if !cluster.endings.is_empty() {
        text.push_str("  entries that end\n");
        for ending in cluster.endings.iter().take(show) {
            let _ = writeln!(text, "    {}", ending.text());
        }
        let hidden = cluster.endings.len().saturating_sub(show);
        if hidden > 0 {
            let _ = writeln!(text, "    and {hidden} further ones");
        }
    }
}

fn write_field(text: &mut String, field: &ChangedField) {
    let values = match (&field.then, &field.now) {
        (None, None) => "differs".to_owned(),
        (then, now) => {
            let value = |value: &Option<String>| value.as_deref().map_or_else(|| "-".to_owned(), one_line);
            format!("{} -> {}", value(then), value(now))
        }
    };
    let _ = writeln!(text, "    {}: {values}", one_line(&field.path));
}

/// The decider in words.
fn words(decider: &Decider) -> String {
    let colon = |message: &String| if message.is_empty() { String::new() } else { format!(": {}", one_line(message)) };
    match decider {
        Decider::Denied { scope, entry, message } => {
            format!("refused by entry {entry} of the {}'s deny list{}", scope.as_str(), colon(message))
        }
        Decider::NotLetIn { scope } => format!("refused: no entry of the {}'s allow list", scope.as_str()),
        Decider::LetIn => "let in by the access lists".to_owned(),
        Decider::NoPolicy => "refused: no policy".to_owned(),
        Decider::Policy { policy, rule, effect } => {
            let mut text = format!("policy {policy}, rule {rule}");
            if let Some(message) = &effect.denied {
                let _ = write!(text, ", refused{}", colon(message));
            } else {
                let servers = if effect.server_group == "all" { "all servers" } else { &effect.server_group };
                let _ = write!(text, ", {}", one_line(servers));
                let _ = match &effect.schema {
                    Some(schema) => write!(text, ", schema {}", one_line(schema)),
                    None => write!(text, ", no schema"),
                };
            }
            if effect.is_logged {
                text.push_str(", logged");
            }
            text
        }
    }
}

/// The report for programs.
pub(super) fn json(report: &DiffReport, show: usize) -> String {
    let clusters: Vec<Value> = report.clusters.iter().map(|cluster| entry(cluster, show)).collect();
    let fields = |fields: &[ChangedField]| fields.iter().map(ChangedField::json).collect::<Vec<_>>();
    display_text::json(&json!({
        "clusters": clusters,
        "removed": report.removed,
        "added": report.added,
        "settings": fields(&report.settings),
        "objects": report.objects.iter().map(ChangedObject::json).collect::<Vec<_>>(),
        "settingsContentNotCompared": report.has_unknown_settings,
    }))
}

fn entry(cluster: &ClusterDiff, show: usize) -> Value {
    let differences = &cluster.findings.differences;
    let shown: Vec<Value> = differences
        .iter()
        .take(show)
        .map(|one| json!({"then": one.then, "now": one.now, "explain": one.example.call(&cluster.host).words()}))
        .collect();
    json!({
        "name": cluster.name,
        "differences": shown,
        "further": differences.len().saturating_sub(show),
        "notCompared": cluster.findings.uncompared,
        "decidedElsewhere": cluster.findings.beside,
        "fields": cluster.fields.iter().map(ChangedField::json).collect::<Vec<_>>(),
        "contentNotCompared": cluster.unknown_content,
        "endings": cluster.endings.iter().map(Ending::json).collect::<Vec<_>>(),
    })
}
