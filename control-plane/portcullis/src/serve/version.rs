use portcullis_api::status::Served;
use portcullis_translate::Diagnosis;
use serde_json::Value;

/// Tells which versions of the documents the diagnoses are about, in the same order. What is served stays as it was told
/// before.
pub(super) fn stamp(diagnoses: &mut [Diagnosis], documents: &[Value]) {
    for (diagnosis, document) in diagnoses.iter_mut().zip(documents) {
        let version = &mut diagnosis.version;
        version.uid = document.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        version.generation = document.pointer("/metadata/generation").and_then(Value::as_i64);
        if diagnosis.accepted {
            version.served = Served::Newest;
        }
    }
}
