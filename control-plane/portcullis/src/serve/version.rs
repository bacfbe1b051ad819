use std::borrow::Borrow;

use portcullis_api::status::Served;
use portcullis_translate::Diagnosis;
use serde_json::Value;

/// Tells which versions of the documents the diagnoses are about, in the same order. What is served stays as it was told
/// before.
pub(super) fn stamp<D: Borrow<Value>>(diagnoses: &mut [Diagnosis], documents: &[D]) {
    for (diagnosis, document) in diagnoses.iter_mut().zip(documents) {
        let (version, document) = (&mut diagnosis.version, document.borrow());
        version.uid = document.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        version.generation = document.pointer("/metadata/generation").and_then(Value::as_i64);
        if diagnosis.accepted {
            version.served = Served::Newest;
        }
    }
}
