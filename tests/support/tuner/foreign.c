/* A plugin of a version that is none of 3 to 5. */
const char* const ncclTunerPlugin_v2 = "Foreign";
