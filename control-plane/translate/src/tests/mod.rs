mod diagnoses;
mod fixture;
mod golden;
mod invariants;
mod render;
