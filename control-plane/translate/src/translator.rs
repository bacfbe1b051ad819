use std::collections::HashMap;
use std::sync::Arc;

use portcullis_api::{Claims, Code, Problem, Settings, claims_of};
use portcullis_filter_config::Inexpressible;
use serde_json::Value;

use crate::diagnosis::{Diagnosis, Reason};
use crate::listener::{self, Chain};
use crate::resource::{Resource, in_order};
use crate::{Flavour, Input, Translation, check, emit, ownership, secrets};

/// Translates again and again, and remembers what each document led to: an edit of one costs the work of one.
///
/// What comes out depends on the input alone, not on what was translated before. It holds the documents, and with them
/// their keys.
#[derive(Default)]
pub struct Translator {
    /// Under which everything that is known was translated.
    under: Option<(Settings, Flavour)>,
    /// By `metadata.name`: several if objects are named alike, and one's previous edition.
    known: HashMap<String, Vec<Known>>,
    listeners: Vec<Arc<Resource>>,
    default_certificate: Option<Arc<Resource>>,
    turn: u64,
}

struct Known {
    document: Arc<Value>,
    judged: Arc<Judged>,
    /// The turn in which it was asked for last.
    used: u64,
}

/// What a document leads to, whatever other documents there are.
pub(crate) struct Judged {
    claims: Claims,
    diagnosis: Diagnosis,
    /// `None` if it is refused.
    emitted: Option<Emitted>,
}

struct Emitted {
    resources: Vec<Arc<Resource>>,
    chain: Chain,
}

impl Translator {
    /// Translates all objects.
    pub fn translate(&mut self, input: &Input<'_>) -> Translation {
        self.begin(input);
        let judged: Vec<Arc<Judged>> = input.clusters.iter().map(|document| self.judge(document, input)).collect();
        let claims: Vec<&Claims> = judged.iter().map(|one| &one.claims).collect();
        let mut translation = Translation::default();
        let mut chains = Vec::with_capacity(judged.len());
        for (one, conflict) in judged.iter().zip(ownership::conflicts(&claims)) {
            let mut diagnosis = one.diagnosis.clone();
            let emitted = match (&one.emitted, conflict) {
                (Some(_), Some(conflict)) => {
                    diagnosis.refuse(Reason::Conflicted, vec![conflict]);
                    None
                }
                (None, Some(conflict)) => {
                    diagnosis.also(conflict);
                    None
                }
                (emitted, None) => emitted.as_ref(),
            };
            match emitted {
                Some(emitted) => {
                    translation.resources.extend(emitted.resources.iter().cloned());
                    chains.push(emitted.chain.clone());
                }
                None => chains.push(Chain::reserved(&one.claims)),
            }
            translation.diagnoses.push(diagnosis);
        }
        translation.resources.extend(self.default_certificate.clone());
        translation.resources.extend(self.listeners(input.settings, chains));
        translation.resources = in_order(translation.resources);
        self.forget();
        translation
    }

    fn begin(&mut self, input: &Input<'_>) {
        let is_same =
            |(settings, flavour): &(Settings, Flavour)| settings == input.settings && *flavour == input.flavour;
        if !self.under.as_ref().is_some_and(is_same) {
            let default_certificate = secrets::default_certificate(input.settings).map(Arc::new);
            let under = Some((input.settings.clone(), input.flavour));
            *self = Self { under, default_certificate, ..Self::default() };
        }
        self.turn += 1;
    }

    fn judge(&mut self, document: &Arc<Value>, input: &Input<'_>) -> Arc<Judged> {
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if !self.known.contains_key(name) {
            self.known.insert(name.to_owned(), Vec::new());
        }
        let Some(known) = self.known.get_mut(name) else { return Arc::new(judge(document, input)) };
        let same = |one: &&mut Known| Arc::ptr_eq(&one.document, document) || one.document == *document;
        if let Some(one) = known.iter_mut().find(same) {
            one.used = self.turn;
            // A source that reads anew has equal documents in other places.
            one.document = Arc::clone(document);
            return Arc::clone(&one.judged);
        }
        let judged = Arc::new(judge(document, input));
        known.push(Known { document: Arc::clone(document), judged: Arc::clone(&judged), used: self.turn });
        judged
    }

    /// Of an edition that is refused the one before it is translated as well, in a turn of its own: so what was asked for
    /// in the last two turns stays.
    fn forget(&mut self) {
        let turn = self.turn;
        self.known.retain(|_, known| {
            known.retain(|one| one.used + 1 >= turn);
            !known.is_empty()
        });
    }

    fn listeners(&mut self, settings: &Settings, chains: Vec<Chain>) -> Vec<Arc<Resource>> {
        let made = listener::listeners(settings, chains).into_iter();
        let before = std::mem::take(&mut self.listeners);
        let known = |made: &Resource| before.iter().find(|before| ***before == *made).cloned();
        self.listeners = made.map(|made| known(&made).unwrap_or_else(|| Arc::new(made))).collect();
        self.listeners.clone()
    }
}

fn judge(document: &Value, input: &Input<'_>) -> Judged {
    let claims = claims_of(document);
    let (cluster, mut diagnosis) = check(document, &claims.name, input.settings);
    let emitted = cluster.and_then(|cluster| {
        let mut resources = Vec::new();
        match emit(&cluster, input, &mut resources) {
            Ok(chain) => Some(Emitted { resources: resources.into_iter().map(Arc::new).collect(), chain }),
            Err(Inexpressible(what)) => {
                let message = format!("{what} cannot be told to a gateway with the previous release's module");
                diagnosis.refuse(Reason::Invalid, vec![Problem::coded(Code::Invalid, "spec", message)]);
                None
            }
        }
    });
    Judged { claims, diagnosis, emitted }
}
