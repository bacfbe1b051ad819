use std::sync::Arc;

use portcullis_api::{DiscoveredServer, Settings, discovered_of, with_discovered};
use serde_json::Value;

use super::super::by_place::ByPlace;
use super::answers::Answers;
use super::want::{Want, WantCache};

/// Puts what was discovered into documents.
#[derive(Default)]
pub(in super::super) struct DiscoveredDocuments {
    cache: WantCache,
    answers: Arc<Answers>,
    known: ByPlace<Value, DiscoveredDocument>,
    /// The answers that the known ones have.
    answered: Arc<Answers>,
}

/// A document with the servers in it.
struct DiscoveredDocument {
    document: Arc<Value>,
    want: Option<Arc<Want>>,
}

impl DiscoveredDocuments {
    /// Uses these answers from now on.
    pub(in super::super) fn answer(&mut self, answers: Arc<Answers>) {
        self.answers = answers;
    }

    /// The answers in use.
    pub(in super::super) fn answers(&self) -> Arc<Answers> {
        Arc::clone(&self.answers)
    }

    /// Puts the servers into a document that has its references resolved, in the place of any that it has. Returns what has to be
    /// watched for it.
    pub(in super::super) fn put(&mut self, document: &mut Arc<Value>, settings: &Settings) -> Option<Arc<Want>> {
        self.follow(settings);
        let put = DiscoveredDocument::new(document, &mut self.cache, &self.answers);
        *document = put.document;
        put.want
    }

    /// The same for all documents of a set: one that is the same allocation as before, with the same servers, leads to the same
    /// allocation. Returns also how many were looked at.
    pub(in super::super) fn put_all(
        &mut self,
        documents: &mut [Arc<Value>],
        settings: &Settings,
    ) -> (Vec<Option<Arc<Want>>>, usize) {
        self.follow(settings);
        let Self { cache, answers, known, .. } = self;
        let change = known.follow(documents, |_, document| DiscoveredDocument::new(document, cache, answers));
        for (document, put) in documents.iter_mut().zip(known.values()) {
            if !Arc::ptr_eq(document, &put.document) {
                document.clone_from(&put.document);
            }
        }
        (known.values().map(|put| put.want.clone()).collect(), change.new.len())
    }

    /// Brings what is known to these settings, and to the answers in use.
    fn follow(&mut self, settings: &Settings) {
        if self.cache.follow(settings) {
            self.known = ByPlace::default();
        }
        if !Arc::ptr_eq(&self.answered, &self.answers) {
            self.answered = Arc::clone(&self.answers);
            self.known.entries_mut().for_each(|(written, known)| known.answer(written, &self.answers));
        }
    }

    /// The servers that a source has named last; `None` if it has named none and does not answer that there are none.
    pub(in super::super) fn answer_of(&self, want: &Want) -> Option<Vec<DiscoveredServer>> {
        self.answers.answer_of(want)
    }

    /// Forgets objects that are not there any more.
    pub(in super::super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.cache.keep(is_there);
    }
}

impl DiscoveredDocument {
    fn new(written: &Arc<Value>, cache: &mut WantCache, answers: &Answers) -> Self {
        let bare = with_discovered(written, None);
        let want = cache.want(&bare);
        Self { document: with_discovered(&bare, answers.of(want.as_deref()).as_ref()), want }
    }

    /// Takes other answers.
    fn answer(&mut self, written: &Arc<Value>, answers: &Answers) {
        if self.want.is_none() {
            return;
        }
        let discovered = answers.of(self.want.as_deref());
        if discovered_of(self.document.get("status")) != discovered {
            self.document = with_discovered(&with_discovered(written, None), discovered.as_ref());
        }
    }
}
