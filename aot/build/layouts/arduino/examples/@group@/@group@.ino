/* SPDX-License-Identifier: Apache-2.0 */
/* Runs @names@ over inputs that you fill in, and prints the first output and the time. */
@headers:#include <{}>@

@sketch@
void setup() {
    Serial.begin(115200);
@resets@}

void loop() {
@runs@    delay(1000);
}
